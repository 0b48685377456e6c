"""What the service is set to: a list of keys, each from a flag, the environment, a file or its default, in that order.

A key `grpc_listen` is `--grpc-listen` as a flag, `OPTSCHED_GRPC_LISTEN` in the environment and `grpc_listen:` in the
file, which `--config` or `OPTSCHED_CONFIG` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from optsched.files.fields import Absent, Id, Strict, Text
from optsched.files.settings import load

PREFIX = "OPTSCHED_"

Listen = Annotated[
    str,
    Field(
        pattern=r"^(off|([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5})$",
        description="host:port (port 0: any that is free), [address]:port for IPv6, or off",
    ),
]
Span = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False, description="seconds above 0, at most 86,400")]
Many = Annotated[int, Field(ge=1, le=10_000_000, description="a whole number from 1 to 10,000,000")]


class Settings(Strict):
    """Every key of the service, with what it does."""

    store: Text = Field(
        "sqlite:///optsched.db",
        description="where all is kept: sqlite:///PATH, postgresql://USER@HOST/DATABASE, or memory: (lost at the end)",
    )
    stand_by: bool = Field(False, description="whether to wait while another scheduler has the store: true or false")
    cluster: Absent[Text] = Field(None, description="a cluster by name or path, where the store is empty")
    start: Absent[Text] = Field(None, description="a snapshot's path, in place of cluster, where the store is empty")
    profile: Text = Field("default", description="a profile by name or path, where the store is empty")
    default_team: Id = Field("default", description="the team of a job that names none; made where there are no teams")
    grpc_listen: Listen = Field("127.0.0.1:7440", description="where gRPC is served: host:port, or off")
    rest_listen: Listen = Field("127.0.0.1:7441", description="where REST is served: host:port, or off")
    tokens: Absent[Text] = Field(None, description="a file with who may call; absent: everybody may do everything")
    tls_certificate: Absent[Text] = Field(None, description="a PEM file with the certificate (and its chain)")
    tls_key: Absent[Text] = Field(None, description="a PEM file with the key of the certificate")
    tls_client_ca: Absent[Text] = Field(
        None, description="a PEM file: callers have to show a certificate that one of these authorities signed"
    )
    allow_open: bool = Field(False, description="whether to serve without tokens beyond loopback: true or false")
    allow_plaintext: bool = Field(False, description="whether to serve without TLS beyond loopback: true or false")
    rate_per_s: Many = Field(10_000, description="requests a second of one caller at most; more get a 429")
    rounds_in: Literal["process", "thread"] = Field(
        "process", description="where rounds are planned: process or thread"
    )
    budget_s: Absent[Span] = Field(None, description="the time for one round, in seconds; the profile's where absent")
    round_gap_s: Span = Field(0.2, description="seconds between a round and the next, to gather requests")
    tick_s: Span = Field(0.25, description="seconds between looks at what time alone changes")
    heartbeat_s: Span = Field(10.0, description="seconds between two heartbeats of an agent")
    lease_s: Span = Field(30.0, description="seconds from a heartbeat after which an agent is late")
    lease_patience_s: Span = Field(10.0, description="seconds more after which its node is given up")
    stream_grace_s: Span = Field(
        6.0, description="seconds that an agent whose stream broke has to come back; then its node is given up"
    )
    agents_may_join: bool = Field(
        True, description="whether an agent of an unknown node brings it along: true or false"
    )
    request_s: Span = Field(30.0, description="seconds after which a REST request is given up")
    max_waiting: Many = Field(4096, description="requests that wait at most; more are sent away with 429")
    max_jobs: Many = Field(500_000, description="jobs that have not ended, at most")
    max_team_jobs: Many = Field(200_000, description="jobs of one team that have not ended, at most")
    ended_kept_s: float = Field(
        86_400.0,
        gt=0,
        le=7 * 86_400,
        allow_inf_nan=False,
        description="seconds above 0, at most 604,800, that a job which has ended stays in lists",
    )
    ended_kept: Many = Field(20_000, description="jobs that have ended and stay in lists, at most")
    max_message_mib: Many = Field(16, description="MiB of one request, at most")
    save_every: Many = Field(20_000, description="log entries after which the state is saved")
    shutdown_s: Span = Field(10.0, description="seconds that requests under way are given at shutdown")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="debug, info, warning or error")
    log_format: Literal["text", "json"] = Field("text", description="text or json")


def load_settings(flags: Mapping[str, str], environment: Mapping[str, str], config: str | None) -> Settings:
    """Return the settings: flags before environment before the file before defaults.

    Raises InputError with all faults, each at the flag, variable or line that it comes from.
    """
    return load(Settings, PREFIX, flags, environment, config)

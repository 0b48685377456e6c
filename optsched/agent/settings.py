"""What an agent is set to; every key is a flag, a variable OPTSCHED_AGENT_… and a key of the file."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from optsched.agent.statefile import file_name
from optsched.errors import UsageError
from optsched.files.fields import Absent, Id, NodeGpus, Strict, Targets, Text
from optsched.wire.access import Access

PREFIX = "OPTSCHED_AGENT_"

_PAIR = r"[A-Za-z0-9][A-Za-z0-9._:@+/-]*=[^,=\s]+"
Pairs = Annotated[str, Field(pattern=rf"^({_PAIR}(,{_PAIR})*)?$")]
Range = Annotated[str, Field(pattern=r"^[0-9]{1,5}-[0-9]{1,5}$")]
Span = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Much = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Settings(Strict):
    """Every key of an agent, with what it does and what is allowed."""

    scheduler: Targets = Field(
        "127.0.0.1:7440", description="where the scheduler serves gRPC: host:port, or several with commas between"
    )
    token_file: Absent[Text] = Field(None, description="a file with the token that the agent shows; none where absent")
    tls_ca: Absent[Text] = Field(
        None, description="a PEM file: authorities that vouch for the scheduler; nothing is encrypted where absent"
    )
    tls_certificate: Absent[Text] = Field(None, description="a PEM file with the agent's own certificate")
    tls_key: Absent[Text] = Field(None, description="a PEM file with the key of that certificate")
    node: Absent[Id] = Field(None, description="the node's name, an id; the host's name where absent")
    state_dir: Absent[Text] = Field(
        None, description="a folder of this agent alone; /var/lib/optsched/NODE where absent, below home if not root"
    )
    gpus: Absent[NodeGpus] = Field(None, description="how many GPUs, 0 to 1,024; those that NVML finds where absent")
    gpu_type: Absent[Id] = Field(None, description="what the GPUs are, such as h100; as NVML names them where absent")
    domains: Pairs = Field("", description="where the node lies: level=domain, or several, as in block=b1,rack=r7")
    fabric: Absent[Id] = Field(None, description="how its GPUs are wired: the name of a fabric of the cluster")
    cpus: Absent[Much] = Field(None, description="CPU cores, 0 to 1e9; those of the machine where absent")
    cpus_reserved: Absent[Much] = Field(None, description="CPU cores that jobs do not get, 0 to 1e9")
    memory_gb: Absent[Much] = Field(None, description="memory in GB, 0 to 1e9; that of the machine where absent")
    labels: Pairs = Field("", description="what jobs may select by: name=value, or several, as in zone=a,disk=nvme")
    spare: bool = Field(False, description="whether it is kept for the repair of gangs: true or false")
    address: Absent[Text] = Field(None, description="where other nodes reach this one; the host's name where absent")
    ports: Range = Field("20000-29999", description="where rank 0 of a gang may listen: two ports from 1 to 65535")
    run_as: Id = Field(
        "submitter", description="whom tasks belong to where the agent is root: submitter, agent, or an account's name"
    )
    cgroup: Text = Field("auto", description="limits by the kernel: auto, off, or the path of a group to work in")
    probe: Text = Field("shipped", description="what tests the node: shipped, none, or a command")
    probe_limit_s: Span = Field(120.0, description="seconds that a probe may take, above 0, at most 86,400")
    probe_every_s: Absent[Span] = Field(
        None, description="seconds between probes of an idle node, above 0, at most 86,400; never where absent"
    )
    health_every_s: Span = Field(
        30.0, description="seconds between two looks at the GPUs' counters, above 0, at most 86,400"
    )
    keep_logs_s: Much = Field(
        604_800.0, description="seconds for which the logs of a run that is over are kept, 0 to 1e9"
    )
    seed: Absent[Annotated[int, Field(ge=0, lt=2**31)]] = Field(
        None, description="of the chance in waits and ports, 0 to 2147483647; drawn anew at each start where absent"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="debug, info, warning or error")
    log_format: Literal["text", "json"] = Field("text", description="text or json")

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node or socket.gethostname()

    @property
    def access(self) -> Access:
        """How the agent shows who it is. Raises UsageError."""
        return Access(self.token_file, self.tls_ca, self.tls_certificate, self.tls_key)

    @property
    def folder(self) -> Path:
        """The folder of the agent's state."""
        if self.state_dir is not None:
            return Path(self.state_dir).absolute()
        base = Path("/var/lib") if os.geteuid() == 0 else Path.home() / ".local" / "state"
        return base / "optsched" / file_name(self.name)

    @property
    def port_range(self) -> tuple[int, int]:
        """The first and the last port. Raises UsageError."""
        first, last = (int(part) for part in self.ports.split("-"))
        if not 0 < first <= last <= 65_535:
            raise UsageError(f"ports: given {self.ports!r}; allowed: two ports from 1 to 65535, the smaller one first")
        return first, last


def pairs(text: str) -> dict[str, str]:
    """Return name=value,name=value as a mapping."""
    return dict(part.split("=", 1) for part in text.split(",")) if text else {}

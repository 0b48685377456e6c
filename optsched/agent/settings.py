"""What an agent is set to; every key is a flag, a variable OPTSCHED_AGENT_… and a key of the file."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from optsched.errors import UsageError
from optsched.files.fields import Absent, Id, NodeGpus, Strict, Text

PREFIX = "OPTSCHED_AGENT_"

_HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}"
_PAIR = r"[A-Za-z0-9][A-Za-z0-9._:@+/-]*=[^,=\s]+"
Targets = Annotated[
    str,
    Field(
        pattern=rf"^{_HOST}(,{_HOST})*$",
        description="host:port, or several with commas between; [address]:port for IPv6",
    ),
]
Pairs = Annotated[
    str, Field(pattern=rf"^({_PAIR}(,{_PAIR})*)?$", description="name=value, or several with commas between")
]
Range = Annotated[str, Field(pattern=r"^[0-9]{1,5}-[0-9]{1,5}$", description="two ports, such as 20000-29999")]
Span = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False, description="seconds above 0, at most 86,400")]
Much = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, description="a number from 0 to 1e9")]


class Settings(Strict):
    """Every key of an agent, with what it does."""

    scheduler: Targets = Field(
        "127.0.0.1:7440", description="where the scheduler serves gRPC; several are tried in turn"
    )
    node: Absent[Id] = Field(None, description="the node's name; the host's where absent")
    state_dir: Absent[Text] = Field(
        None,
        description="a folder of this agent alone; /var/lib/optsched/NODE where absent, below home if not root",
    )
    gpus: Absent[NodeGpus] = Field(None, description="how many GPUs there are; those that NVML finds where absent")
    gpu_type: Absent[Id] = Field(None, description="what the GPUs are; as NVML names them where absent")
    domains: Pairs = Field("", description="where the node lies: block=b1,rack=r7")
    fabric: Absent[Id] = Field(None, description="how its GPUs are wired: a fabric of the cluster")
    cpus: Absent[Much] = Field(None, description="CPU cores; those of the machine where absent")
    cpus_reserved: Absent[Much] = Field(None, description="CPU cores that jobs do not get")
    memory_gb: Absent[Much] = Field(None, description="memory in GB; that of the machine where absent")
    labels: Pairs = Field("", description="what jobs may select by: zone=a,disk=nvme")
    spare: bool = Field(False, description="whether it is kept for the repair of gangs: true or false")
    address: Absent[Text] = Field(None, description="where other nodes reach this one; the host's name where absent")
    ports: Range = Field("20000-29999", description="the ports at which rank 0 of a gang may listen")
    run_as: Id = Field(
        "submitter", description="whom tasks belong to where the agent is root: submitter, agent, or an account"
    )
    cgroup: Text = Field(
        "auto", description="limits by the kernel: auto, off, or the path of a group that the agent may write to"
    )
    probe: Text = Field("shipped", description="the command that tests the node: shipped, none, or a command")
    probe_limit_s: Span = Field(120.0, description="seconds that a probe may take")
    probe_every_s: Absent[Span] = Field(
        None, description="seconds between probes of a node that has nothing to do; never where absent"
    )
    health_every_s: Span = Field(30.0, description="seconds between two looks at the GPUs' counters")
    keep_logs_s: Annotated[float, Field(ge=0, le=1e9, description="seconds from 0 to 1e9")] = Field(
        604_800.0, description="seconds for which the logs of a run that is over are kept"
    )
    seed: Absent[Annotated[int, Field(ge=0, lt=2**31, description="a whole number from 0 to 2147483647")]] = Field(
        None, description="of the chance in waits and ports; drawn anew at each start where absent"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="debug, info, warning or error")
    log_format: Literal["text", "json"] = Field("text", description="text or json")

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node or socket.gethostname()

    @property
    def folder(self) -> Path:
        """The folder of the agent's state."""
        if self.state_dir is not None:
            return Path(self.state_dir).absolute()
        base = Path("/var/lib") if os.geteuid() == 0 else Path.home() / ".local" / "state"
        return base / "optsched" / self.name.replace("/", "_")

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

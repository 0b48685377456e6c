"""Lists of machines that come with traces, as a cluster."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from optsched.errors import InputError
from optsched.files.fields import ID_PATTERN, ID_RULE, MAX_NODE_GPUS
from optsched.files.report import field_name, show
from optsched.files.traces.rows import Faults, Row, csv_rows
from optsched.files.traces.source import Source
from optsched.files.yamltext import YamlProblem, parse_yaml
from optsched.values.cluster import Cluster, Node
from optsched.values.ids import ANY_TYPE, GpuType, LevelName, NodeId

GB_PER_GIB = 1.073741824
MAX_ID, MAX_CPUS, MAX_MEMORY_GB = 253, 1e9, 1e12
"""As cluster files have them."""
NO_GPUS = "machines without a GPU"
_LEVELS = ("pod", "block", "rack")


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a list; `rack` is the path of its domains, widest first, with / between."""

    line: int
    id: str
    gpus: int | None
    gpu_type: str = ""
    cpus: float | None = None
    memory_gib: float | None = None
    rack: str = ""


@dataclass(slots=True)
class NodeList:
    """What a list of machines holds: the cluster, and how many were left out, by reason."""

    cluster: Cluster
    format: str
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where a table of machines keeps what; `milli` and `mib` say that CPUs and memory count so."""

    name: str
    told_by: tuple[str, ...]
    id: str
    gpus: str = ""
    gpu_type: str = ""
    cpus: str = ""
    cpu_scale: float = 1.0
    memory: str = ""
    memory_scale: float = 1.0
    rack: tuple[str, ...] = ()


TABLES = (
    _Columns("optsched", ("node_id", "gpus"), "node_id", "gpus", "gpu_type", "cpus", 1, "mem_gb", 1, ("rack",)),
    _Columns(
        "philly",
        ("machineId", "number of GPUs", "single GPU mem"),
        "machineId",
        "number of GPUs",
        "single GPU mem",
    ),
    _Columns(
        "alibaba-2023", ("sn", "gpu", "model"), "sn", "gpu", "model", "cpu_milli", 1 / 1000, "memory_mib", 1 / 1024
    ),
    _Columns(
        "alibaba-2026", ("gpu_model", "gpu_capacity_num"), "node_name", "gpu_capacity_num", "gpu_model", "cpu_num"
    ),
    _Columns("alibaba-2020", ("machine", "cap_gpu"), "machine", "cap_gpu", "gpu_type", "cap_cpu", 1, "cap_mem"),
    _Columns("lingjun", ("ip", "DSW", "PSW", "ASW"), "ip", rack=("DSW", "PSW", "ASW")),
)


def node_format(source: Source) -> str | None:
    """Return what list of machines a file is, None where it is none."""
    for columns in TABLES:
        if source.has(*columns.told_by):
            return columns.name
    if re.search(r"^kind: Node\s*$", source.text[:5_000], re.MULTILINE):
        return "kubernetes"
    return None


def read_nodes(source: Source, gpus_per_node: int | None = None, rack_nodes: int | None = None) -> NodeList:
    """Return the cluster of a list of machines. Raises InputError with all faults.

    `gpus_per_node` is what a machine has where the list does not say; `rack_nodes` puts the machines of each type, in
    their order, into racks of so many where the list names none. Machines without a GPU are left out, and counted.
    """
    form = node_format(source)
    assert form is not None, "the caller has seen that it is a list of machines"
    faults = Faults(source.file)
    read: Callable[[Source, Faults], Iterator[Machine]] = _kubernetes if form == "kubernetes" else _table
    left_out: Counter[str] = Counter()
    nodes: dict[str, Node] = {}
    levels: tuple[LevelName, ...] = ()
    in_rack: Counter[str] = Counter()
    for machine in read(source, faults):
        gpus = machine.gpus if machine.gpus is not None else gpus_per_node
        if gpus is None:
            faults.add(
                machine.line, "(columns)", "GPUs of a machine are not told", "a list with them, or --gpus-per-node"
            )
            break
        path = [part for part in machine.rack.split("/") if part]
        _check(machine, path, faults)
        if machine.id in nodes:
            faults.add(machine.line, "id", f"{show(machine.id)} is listed twice", "each machine once")
        if not gpus:
            left_out[NO_GPUS] += 1
            continue
        if not path and rack_nodes:
            path = [f"{machine.gpu_type or 'rack'}-{in_rack[machine.gpu_type] // rack_nodes}"]
            in_rack[machine.gpu_type] += 1
        here = tuple(LevelName(name) for name in _LEVELS[-len(path) :]) if path else ()
        path = path[: len(here)]
        levels = max(levels, here, key=len)
        nodes[machine.id] = Node(
            id=NodeId(machine.id),
            gpus=gpus,
            domains=dict(zip(here, path, strict=True)),
            gpu_type=GpuType(machine.gpu_type) if machine.gpu_type else ANY_TYPE,
            cpus=machine.cpus,
            memory_gb=None if machine.memory_gib is None else round(machine.memory_gib * GB_PER_GIB, 3),
        )
    if not faults.count and not nodes:
        faults.add(None, "(file)", "no machine with a GPU", "at least one")
    if faults.count:
        raise InputError(faults.kept)
    return NodeList(Cluster(tuple(nodes.values()), levels), form, left_out)


def _check(machine: Machine, path: Sequence[str], faults: Faults) -> None:
    """Note a fault for whatever of a machine a cluster file could not have: what is written is read again."""
    kind = [machine.gpu_type] if machine.gpu_type else []
    for where, names in (("id", [machine.id]), ("gpu_type", kind), ("rack", path)):
        for name in names:
            if not re.fullmatch(ID_PATTERN, name) or len(name) > MAX_ID:
                faults.add(machine.line, where, f"given {show(name)}", ID_RULE)
    if len(path) > len(_LEVELS):
        faults.add(machine.line, "rack", f"{len(path)} domains", f"at most {len(_LEVELS)}: {', '.join(_LEVELS)}")
    if (machine.cpus or 0) > MAX_CPUS:
        faults.add(machine.line, "cpus", f"comes to {machine.cpus:,.10g}", f"a number from 0 to {MAX_CPUS:,.10g}")
    if (machine.memory_gib or 0) * GB_PER_GIB > MAX_MEMORY_GB:
        wrong, most = f"comes to {machine.memory_gib:,.10g} GiB", MAX_MEMORY_GB / GB_PER_GIB
        faults.add(machine.line, "mem_gb", wrong, f"a number from 0 to {most:,.10g}")


def _table(source: Source, faults: Faults) -> Iterator[Machine]:
    columns = next(entry for entry in TABLES if source.has(*entry.told_by))
    for row in csv_rows(source.text, faults):
        cpus, memory = row.maybe(columns.cpus), row.maybe(columns.memory)
        machine = Machine(
            line=row.line,
            id=row.needed(columns.id)[:16] if columns.name == "lingjun" else row.needed(columns.id),
            gpus=_gpus(row, columns),
            gpu_type=row.text(columns.gpu_type),
            cpus=None if cpus is None else cpus * columns.cpu_scale,
            memory_gib=None if memory is None else memory * columns.memory_scale,
            rack="/".join(row.text(column) for column in columns.rack),
        )
        if row.sound:
            yield machine


def _gpus(row: Row, columns: _Columns) -> int | None:
    return row.whole(columns.gpus, 0, MAX_NODE_GPUS) if columns.gpus else None


def _kubernetes(source: Source, faults: Faults) -> Iterator[Machine]:
    """Yield the nodes of a stream of Kubernetes objects: GPUs by Alibaba's or NVIDIA's resource name."""
    line = 1
    for text in re.split(r"^---\s*$", source.text, flags=re.MULTILINE):
        begun, line = line, line + text.count("\n")
        if not text.strip():
            continue
        try:
            data, _, doubled = parse_yaml(text)
        except YamlProblem as error:
            faults.add(begun + (error.line or 1) - 1, "(syntax)", error.wrong, error.allowed)
            continue
        for twice in doubled:
            name = field_name(data, twice.path)
            faults.add(begun + (twice.line or 1) - 1, name, "the key is given twice in one mapping", "each key once")
        if doubled:
            continue
        if not isinstance(data, dict) or data.get("kind") != "Node":
            faults.add(begun, "kind", f"given {show(data.get('kind') if isinstance(data, dict) else data)}", "Node")
            continue
        meta, status = _mapping(data.get("metadata")), _mapping(data.get("status"))
        room = _mapping(status.get("capacity")) or _mapping(status.get("allocatable"))
        labels = _mapping(meta.get("labels"))
        first = begun + len(text) - len(text.lstrip("\n"))
        row = Row({key: str(value) for key, value in room.items()}, first, faults)
        name = str(meta.get("name") or "")
        if not name:
            row.fault("metadata.name", "missing", "the name of the node")
        resource = "alibabacloud.com/gpu-count" if "alibabacloud.com/gpu-count" in room else "nvidia.com/gpu"
        gpus = row.whole(resource, 0, MAX_NODE_GPUS) or 0
        kind = labels.get("alibabacloud.com/gpu-card-model") or labels.get("nvidia.com/gpu.product") or ""
        if row.sound:
            yield Machine(first, name, gpus, str(kind), _cores(row.text("cpu")), _gib(row.text("memory")))


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _cores(text: str) -> float | None:
    found = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)(m?)", text)
    return None if found is None else float(found[1]) / (1000 if found[2] else 1)


def _gib(text: str) -> float | None:
    found = re.fullmatch(r"(\d{1,18}(?:\.\d+)?)(Ki|Mi|Gi|Ti|)", text)
    if found is None:
        return None
    return float(found[1]) * {"Ki": 1 / 1024**2, "Mi": 1 / 1024, "Gi": 1.0, "Ti": 1024.0, "": 1 / 1024**3}[found[2]]

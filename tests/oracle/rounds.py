"""Seeded rounds that mix every feature: tiny ones for the brute force, small ones for comparing solvers.

Times and prices are chosen so that nearly every entry of a bill is a whole number before it is rounded.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from optsched.values.cluster import Cluster, Node, NodeState, Reservation, ReservationKind
from optsched.values.ids import GpuType, JobId, LevelName, NodeId, ReservationId, TeamId, UserId
from optsched.values.job import Checkpoint, Job, JobState, Slice
from optsched.values.profile import PreemptTokens, PriorityMode, Profile, Reclaim
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team
from tests.oracle.facts import Hold, Round
from tests.oracle.shapes import keeps_cut, keeps_required, keeps_slices

CLASSES = {"P0": 4000, "P1": 3000, "P2": 2000, "P3": 1000, "P4": 0}
LEVELS = ((), ("rack",), ("rack",), ("block", "rack"), ("block", "rack"), ("pod", "block", "rack"))
THEMES = (
    "mixed",
    "mixed",
    "preempt",
    "preempt",
    "reclaim",
    "reclaim",
    "move",
    "move",
    "elastic",
    "elastic",
    "deadline",
)
"""What a round has more of than others have; "mixed" leaves everything to chance."""

NODE_PRICES = (0, 0, 5, 20, 100)


@dataclass(frozen=True)
class Scale:
    """How large a round is."""

    nodes: tuple[int, int]
    gpus: tuple[int, ...]
    teams: tuple[int, int]
    running: tuple[int, int]
    queued: tuple[int, int]
    sizes: tuple[int, ...]
    fill: float


TINY = Scale((2, 5), (1, 2, 2, 4, 4), (1, 4), (2, 5), (2, 4), (1, 1, 2, 2, 3, 4, 4, 6), 1.0)
SMALL = Scale((12, 40), (2, 4, 8, 8), (3, 8), (40, 120), (8, 30), (1, 2, 4, 4, 8, 8, 16, 24, 32), 0.92)


def tiny_round(seed: int) -> Snapshot:
    """Return a round that the brute force can solve."""
    return _Maker(random.Random(seed), TINY).make()


def small_round(seed: int) -> Snapshot:
    """Return a round of 12 to 40 nodes with the same features."""
    return _Maker(random.Random(seed), SMALL).make()


def tiny_holds(seed: int, round_: Round) -> list[Hold]:
    """Return holds for one queued job (or for nobody who waits) on nodes with free GPUs; none where nothing is free."""
    rng = random.Random(seed)
    free = [node for node, gpus in round_.free.items() if gpus and round_.takes_work(node)]
    if not free:
        return []
    gang = rng.choice([None, *round_.order])
    behind = round_.order[round_.order.index(gang) + 1 :] if gang is not None else round_.order
    binds = {job for job in behind if rng.random() < 0.8} | {job for job in round_.before if rng.random() < 0.8}
    nodes = rng.sample(free, rng.randint(1, len(free)))
    gpus = {node: rng.randint(1, round_.free[node]) for node in nodes}
    return [Hold(gang, gpus, frozenset(binds), round_.now + rng.choice((60, 600, 7200)))]


class _Maker:
    """Makes one round, from top to bottom; every draw comes from `rng`."""

    def __init__(self, rng: random.Random, scale: Scale) -> None:
        self.rng, self.scale = rng, scale
        self.now = rng.choice((0, 100_000))
        self.theme = rng.choice(THEMES)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def make(self) -> Snapshot:
        """Return the round: cluster, teams, what runs, what waits, and only then what is wrong with the nodes."""
        self.levels = tuple(LevelName(name) for name in self.rng.choice(LEVELS))
        self.types = tuple(GpuType(t) for t in (("a100", "h100") if self.chance(0.35) else ("h100",)))
        self.with_cpus, self.with_memory = self.chance(0.35), self.chance(0.2)
        nodes = self._nodes()
        self.total = sum(node.healthy_gpus for node in nodes)
        self.profile = self._profile()
        self.teams = self._teams()
        cluster = Cluster(tuple(nodes), self.levels)
        bare = Snapshot(self.now, cluster, self.teams, (), (), self.profile)
        running = self._running(bare)
        queued = [self._job(f"q{i}") for i in range(self.rng.randint(*self.scale.queued))]
        busy = {node for job in running for node in job.placement}
        nodes = [self._trouble(node, node.id in busy) for node in nodes]
        reservations = self._reservations(nodes, running, queued)
        jobs = [*running, *queued]
        self.rng.shuffle(jobs)
        return Snapshot(
            self.now, Cluster(tuple(nodes), self.levels), self.teams, tuple(jobs), reservations, self.profile
        )

    # The cluster

    def _nodes(self) -> list[Node]:
        rng = self.rng
        count = rng.randint(*self.scale.nodes)
        usual = {name: rng.choice(self.scale.gpus) for name in self.types}
        ragged, outside = self.chance(0.5), self.chance(0.2)
        names = [[0] * len(self.levels)]
        for _ in range(count - 1):
            step = [1 if self.chance(0.45) else 0 for _ in self.levels]
            last = names[-1]
            first_new = next((i for i, more in enumerate(step) if more), len(step))
            names.append([n + (1 if i == first_new else 0) if i <= first_new else 0 for i, n in enumerate(last)])
        nodes = []
        for index in range(count):
            gpu_type = self.types[index % 2 if len(self.types) == 2 and self.chance(0.8) else 0]
            gpus = rng.choice(self.scale.gpus) if ragged and self.chance(0.3) else usual[gpu_type]
            domains = {level: f"{level[0]}{names[index][i]}" for i, level in enumerate(self.levels)}
            if outside and domains and self.chance(0.35):
                del domains[rng.choice(list(domains))]
            bad = (rng.randrange(gpus),) if gpus > 1 and self.chance(0.05) else ()
            reserved = 4.0 if self.chance(0.3) else 0.0
            nodes.append(
                Node(
                    NodeId(f"n{index}"),
                    gpus,
                    domains,
                    gpu_type,
                    cpus=8.0 * gpus + reserved if self.with_cpus else None,
                    cpus_reserved=reserved if self.with_cpus else 0.0,
                    memory_gb=64.0 * gpus if self.with_memory else None,
                    gpus_bad=bad,
                    labels={"zone": rng.choice("ab")},
                )
            )
        return nodes

    def _trouble(self, node: Node, busy: bool) -> Node:
        draw = self.rng.random()
        if draw < 0.05:
            return replace(node, state=NodeState.CORDONED, reason="an operator")
        if draw < 0.08:
            return replace(node, state=NodeState.DRAINING)
        if draw < 0.10 and not busy:
            return replace(node, state=NodeState.DOWN)
        if draw < 0.2 and not busy:
            return replace(node, spare=True)
        return node

    def _reservations(self, nodes: list[Node], running: list[Job], queued: list[Job]) -> tuple[Reservation, ...]:
        rng, found = self.rng, []
        if self.chance(0.15):
            start = self.now + rng.choice((-600, 900, 1800, 3600, 7200))
            closed = tuple(node.id for node in rng.sample(nodes, max(1, len(nodes) // 3)))
            found.append(Reservation(ReservationId("window"), start, start + 3600, nodes=closed))
        if self.chance(0.12):
            names = [name for level in self.levels for node in nodes if (name := _path(self.levels, node, level))]
            lucky = rng.choice([*running, *queued])
            by_team = self.chance(0.4)
            found.append(
                Reservation(
                    ReservationId("grant"),
                    self.now - 600,
                    self.now + 86400,
                    ReservationKind.GRANT,
                    gpus=rng.choice((2, 4, lucky.gpus, lucky.gpus)),
                    within=rng.choice([None, *names]),
                    teams=(lucky.team,) if by_team else (),
                    jobs=() if by_team else (lucky.id,),
                )
            )
        return tuple(found)

    # Who shares it, and how

    def _profile(self) -> Profile:
        rng = self.rng
        rack, block, widest = rng.choice(((1.0, 1.0, 1.0), (0.95, 0.9, 0.85), (0.9, 0.8, 0.6), (0.8, 0.5, 0.4)))
        price = rng.choice(NODE_PRICES)
        tokens = (PreemptTokens(1.0, 2.0), PreemptTokens(0.0, 2.0), PreemptTokens(0.5, 1.0), None)
        return Profile(
            priority_mode=PriorityMode.WEIGHTED if self.chance(0.35) else PriorityMode.STRICT,
            reclaim=Reclaim.QUOTA if self.chance(0.25) else Reclaim.FAIR_SHARE,
            migration=self.chance(0.8),
            max_loss_ratio=rng.choice((1.0, 1.0, 0.5, 0.1, 0.05, None)),
            patience_s=rng.choice((900.0, 3600.0)),
            min_runtime_s=rng.choice((0.0, 600.0, 600.0)),
            preempt_tokens=rng.choice(tokens),
            max_stopped_gpus_per_h=rng.choice((1, 2, 4)) if self.chance(0.15) else None,
            backfill_preemptible=self.chance(0.5),
            starve_after_s=1000.0 if self.theme in ("move", "reclaim", "mixed") else 21_600.0,
            emergency_classes=("P0",) if self.chance(0.3) else (),
            deadline_classes=rng.choice(((), ("P0", "P1"), ("P1", "P2", "P3"))),
            speed={LevelName("rack"): rack, LevelName("block"): block, LevelName("pod"): (block + widest) / 2},
            speed_widest=widest,
            preferred_price=rng.choice((0.05, 0.1, 0.5)),
            domain_price={
                LevelName("node"): price,
                LevelName("rack"): 3 * price,
                LevelName("block"): 10 * price,
                LevelName("pod"): 20 * price,
            },
        )

    def _teams(self) -> tuple[Team, ...]:
        rng = self.rng
        count = rng.randint(*self.scale.teams)
        if self.theme in ("preempt", "reclaim"):
            count = min(count, 2) if self.theme == "preempt" else max(count, 2)
        teams: list[Team] = []
        for index in range(count):
            parent = rng.choice(teams).id if teams and self.chance(0.3) else None
            teams.append(
                Team(
                    TeamId(f"t{index}"),
                    parent,
                    rng.choice((0.0, 0.5, 1.0, 1.0, 1.0, 2.0, 4.0)),
                    Amounts(gpus=self._part(0.0, 0.4)) if self.theme == "reclaim" and not index else self._quota(count),
                    self._limit() if self.chance(0.15) else None,
                    rng.choice((1000, 2000)) if self.chance(0.15) else None,
                    rng.choice((0, 2, 4, 8)),
                    Amounts(gpus=self._part(0.3, 0.7)) if self.chance(0.1) else None,
                )
            )
        return tuple(teams)

    def _part(self, low: float, high: float) -> int:
        return max(1, round(self.total * self.rng.uniform(low, high)))

    def _quota(self, teams: int) -> Amounts | None:
        draw = self.rng.random()
        if draw < 0.25:
            return None
        gpus = self._part(0.2, 1.6 / teams)
        if draw < 0.6:
            return Amounts(gpus=gpus)
        if draw < 0.68:
            return Amounts(gpus=0)
        if draw < 0.85:
            named = self.rng.sample(self.types, self.rng.randint(1, len(self.types)))
            return Amounts(gpus_by_type={name: max(1, gpus // len(self.types)) for name in named})
        if draw < 0.95:
            return Amounts(gpus=gpus, cpus=8.0 * self._part(0.2, 0.8))
        return Amounts(cpus=8.0 * self._part(0.2, 0.8))

    def _limit(self) -> Amounts:
        draw = self.rng.random()
        if draw < 0.6:
            return Amounts(gpus=self._part(0.3, 0.9))
        if draw < 0.8:
            return Amounts(gpus_by_type={self.types[-1]: self._part(0.2, 0.6)})
        if draw < 0.9:
            return Amounts(gpus=self._part(0.5, 1.0), cpus=8.0 * self._part(0.3, 0.9))
        return Amounts(memory_gb=64.0 * self._part(0.3, 0.9))

    # Jobs

    def _themed(self, job: Job, running: bool) -> Job:
        """Give a job what the round's theme has more of."""
        rng, theme = self.rng, self.theme
        if theme == "mixed" or self.chance(0.2):
            return job
        if running and theme != "elastic":
            age = rng.choice((300, 1200, 3600, 3600, 7200))
            runtime = rng.choice((None, age + 5000.0, age + 90000.0))
            saved = rng.choice((60, 200, 600, 900))
            job = replace(
                job,
                preemptible=True,
                preemptions=rng.choice((0, 0, 0, 2)),
                submitted_at=self.now - age,
                started_at=self.now - age,
                estimated_runtime_s=runtime,
                last_checkpoint_at=self.now - min(saved, age) if job.last_checkpoint_at is not None else None,
            )
        if theme in ("preempt", "deadline"):
            name = rng.choice(("P3", "P4", "P4") if running else ("P1", "P2", "P3"))
            job = replace(job, priority_class=name, priority=CLASSES[name])
        if theme == "deadline" and not running:
            job = replace(job, start_deadline_at=self.now + rng.choice((-300, 100, 200, 500, 700)))
        if theme == "reclaim":
            job = replace(job, team=rng.choice(self.teams[:2] if running else self.teams[1:]).id)
        if theme == "elastic" and running and job.min_gpus == job.gpus:
            step = job.slices[0].gpus if job.slices else job.gpus_per_node or job.gpus_per_task or 1
            job = replace(job, min_gpus=step, preemptible=True)
        if theme == "move" and running and not job.slices:
            job = replace(job, gpus=max(1, job.gpus // 2), gpus_per_node=None, gpus_per_task=1, min_gpus=0, max_gpus=0)
        if theme == "move" and not running and not job.slices:
            usual = max(self.scale.gpus)
            gpus = min(usual, max(2, self.total // 3))
            job = replace(job, gpus=gpus, gpus_per_node=gpus, gpus_per_task=None, min_gpus=0, max_gpus=0)
        return job

    def _running(self, bare: Snapshot) -> list[Job]:
        """Return jobs that run, legally placed, until the cluster is as full as it should be."""
        rng, jobs = self.rng, []
        empty = Round(bare)
        room = dict(empty.capacity)
        cpus = {node.id: 8.0 * node.gpus for node in bare.cluster.nodes}
        memory = {node.id: 64.0 * node.gpus for node in bare.cluster.nodes}
        most, fill = rng.randint(*self.scale.running), 0.0 if self.chance(0.05) else self.scale.fill
        if self.theme == "move":
            most, fill = self.scale.running[1], 0.75
        for attempt in range(8 * most):
            if len(jobs) >= most or sum(room.values()) <= (1 - fill) * self.total:
                break
            job = self._job(f"r{len(jobs)}", running=True, hungry=attempt < 4 * most)
            empty.cache.clear()  # It knows jobs by their names, and this one's may have been tried before.
            sizes = [size for size in empty.sizes(job) if size]
            size = max(sizes) if self.theme == "elastic" else rng.choice(sizes)
            where = self._place(empty, job, size, room)
            if where is None:
                continue
            per_cpu, per_memory = job.cpus / job.gpus, job.memory_gb / job.gpus
            if (self.with_cpus and any(per_cpu * g > cpus[n] for n, g in where.items())) or (
                self.with_memory and any(per_memory * g > memory[n] for n, g in where.items())
            ):
                continue
            for node, gpus in where.items():
                room[node] -= gpus
                cpus[node] -= per_cpu * gpus
                memory[node] -= per_memory * gpus
            jobs.append(replace(job, placement=where))
        return jobs

    def _place(self, empty: Round, job: Job, size: int, room: dict[str, int]) -> dict[NodeId, int] | None:
        """Return a random placement that keeps the rules of shape and fits into the room; None where none was found."""
        usable = sorted(empty.may_use(job))
        for _ in range(40):
            gpu_type = self.rng.choice(self.types)
            nodes = [n for n in usable if empty.nodes[n].gpu_type == gpu_type and room[n]]
            if not nodes:
                continue
            level = job.required or (self.rng.choice((*self.levels, None)) if self.levels else None)
            if level is not None:
                start = empty.domain(self.rng.choice(nodes), level)
                nodes = [n for n in nodes if empty.domain(n, level) == start]
            self.rng.shuffle(nodes)
            where: dict[NodeId, int] = {}
            left = size
            for node in nodes:
                most = min(left, room[node])
                step = job.gpus_per_task or 1
                gpus = job.gpus_per_node or (most - most % step)
                if job.gpus_per_task and self.chance(0.3):
                    gpus = min(gpus, step)
                if 0 < gpus <= most:
                    where[node] = gpus
                    left -= gpus
            if left == 0 and (
                keeps_cut(empty, job, where) and keeps_required(empty, job, where) and keeps_slices(empty, job, where)
            ):
                return where
        return None

    def _job(self, name: str, *, running: bool = False, hungry: bool = True) -> Job:
        rng = self.rng
        gpus = min(rng.choice(self.scale.sizes), max(1, self.total - 1))
        if not hungry:
            gpus = 1
        cut = self._cut(gpus)
        step = cut.get("gpus_per_node") or cut.get("gpus_per_task") or 1
        priority_class = rng.choice(
            ("P1", "P2", "P2", "P3", "P3", "P3", "P4") if running else (*CLASSES, "P1", "P2", "P3")
        )
        if rng.random() < 0.05:
            priority_class = ""
        sizes = {}
        if gpus >= 1 and self.chance(0.3):
            low = rng.choice(range(step, gpus + 1, step))
            high = gpus + step * rng.choice((0, 0, 1, 2))
            sizes = {"min_gpus": low, "max_gpus": high}
        slices: tuple[Slice, ...] = ()
        if self.chance(0.3) and gpus > 1 and (cut or self.chance(0.3)):
            k = rng.choice([s for s in range(step, gpus + 1, step) if gpus % s == 0])
            slices = (Slice(k, rng.choice((*self.levels, LevelName("node")))),)
            if sizes:
                sizes = {"min_gpus": k, "max_gpus": gpus}
            if len(self.levels) > 1 and self.chance(0.4) and k % (2 * step) == 0:
                slices = (Slice(k, self.levels[-2]), Slice(k // 2, self.levels[-1]))
        topology: dict[str, LevelName] = {}
        if self.chance(0.2):
            topology["required"] = rng.choice((*self.levels, LevelName("node")))
        if self.levels and self.chance(0.4):
            topology["preferred"] = rng.choice(self.levels)
        deadlines = {"start_deadline_at": self.now + rng.choice((-300, 100, 200, 500, 700, 5000))}
        job = Job(
            id=JobId(name),
            team=rng.choice(self.teams).id,
            gpus=gpus,
            priority=CLASSES.get(priority_class, 1500),
            priority_class=priority_class,
            user=UserId(rng.choice(("ada", "bob"))),
            **cut,
            cpus=gpus * rng.choice((2.0, 4.0, 8.0, 8.0, 12.0)) if self.with_cpus or self.chance(0.2) else 0.0,
            memory_gb=gpus * rng.choice((16.0, 32.0, 64.0, 96.0)) if self.with_memory or self.chance(0.1) else 0.0,
            gpu_types=self._gpu_types(),
            **topology,
            slices=slices,
            speed={LevelName("rack"): rng.choice((1.0, 0.9, 0.5))} if self.chance(0.1) else {},
            node_selector={"zone": rng.choice("ab")} if self.chance(0.05) else {},
            exclude_nodes=frozenset({NodeId("n0")}) if self.chance(0.05) else frozenset(),
            preemptible=not self.chance(0.12 if running else 0.25),
            **sizes,
            **(deadlines if self.chance(0.06 if running else 0.15) else {}),
            grace_period_s=300.0 if self.chance(0.15) else None,
            checkpoint=self._checkpoint(),
            **self._times(running),
        )
        return self._themed(job, running)

    def _cut(self, gpus: int) -> dict[str, int]:
        draw = self.rng.random()
        divisors = [k for k in range(1, min(gpus, 8) + 1) if gpus % k == 0]
        if draw < 0.2:
            return {"gpus_per_node": self.rng.choice(divisors)}
        if draw < 0.65:
            return {"gpus_per_task": self.rng.choice((1, 1, *divisors))}
        return {}

    def _gpu_types(self) -> dict[GpuType, float]:
        draw = self.rng.random()
        if len(self.types) == 1 or draw < 0.3:
            return {}
        if draw < 0.6:
            return {self.rng.choice(self.types): 1.0}
        return {GpuType("h100"): 1.0, GpuType("a100"): self.rng.choice((0.5, 0.8))}

    def _checkpoint(self) -> Checkpoint:
        rng = self.rng
        return Checkpoint(
            interval_s=900.0,
            cost_s=rng.choice((0.0, 30.0, 60.0, 600.0)),
            restart_s=rng.choice((0.0, 60.0, 120.0, 300.0)),
            on_signal=self.chance(0.45),
        )

    def _times(self, running: bool) -> dict:
        rng, now = self.rng, self.now
        if not running:
            runtime = rng.choice((None, None, 600.0, 1800.0, 7200.0, 90000.0))
            return {
                "submitted_at": now - rng.choice((0, 60, 600, 1000, 1000, 4000, 10000)),
                "estimated_runtime_s": runtime,
                "preemptions": rng.choice((0, 0, 1)),
            }
        age = rng.choice((300, 900, 1800, 3600, 3600, 7200, 20000))
        saved = rng.choice((None, 60, 600, 900, 1800, 7200))
        return {
            "state": JobState.RUNNING,
            "submitted_at": now - age - rng.choice((0, 600)),
            "started_at": now - age,
            "last_checkpoint_at": None if saved is None or saved > age else now - saved,
            "estimated_runtime_s": rng.choice((None, None, age - 100, age + 100, age + 900, age + 5000, age + 90000)),
            "preemptions": rng.choice((0, 0, 0, 1, 2, 3)),
            "run": 1,
        }


def _path(levels: tuple[LevelName, ...], node: Node, level: LevelName) -> str | None:
    if level not in node.domains:
        return None
    return "/".join(node.domains.get(wider, "-") for wider in levels[: levels.index(level) + 1])

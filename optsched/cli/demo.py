"""optsched demo: gangs, a preemption and a lost agent, on a cluster of eight agents on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from optsched.cli.demo_cluster import DemoCluster
    from optsched.wire.v1 import types_pb2

DESCRIPTION = """\
Run a whole cluster on this machine for about a minute: a scheduler and eight agents
with eight declared GPUs each, in two racks. Gangs of real processes train, an urgent
gang takes the room of the cheapest victim, which saves its work and goes on later from
the same step; an agent is killed, and its gang starts again elsewhere and finishes.
Every step is checked; nothing is left behind."""

LONGEST_S = 240.0

STEPS = {"pretrain": 300, "finetune": 200, "sweep": 200, "hotfix": 60}
STEP_S = 0.1


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("demo", help="run a cluster on this machine for a minute", description=DESCRIPTION)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show it; 0 where all came about as told."""
    import asyncio
    import signal
    import tempfile
    import time

    import grpc

    from optsched.cli.demo_cluster import DemoFailed, demo_cluster, left
    from optsched.cli.terminal import say

    began = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - began:5.1f} s  {text}")

    async def whole(folder: Path) -> list[str]:
        story = asyncio.current_task()
        assert story is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, story.cancel)
        tell("a scheduler and eight agents are started on this machine, with declared GPUs")
        async with asyncio.timeout(LONGEST_S), demo_cluster(folder) as cluster:
            return await Story(cluster, tell).tell_all()

    with tempfile.TemporaryDirectory(prefix="optsched-demo-") as name:
        try:
            shown = asyncio.run(whole(Path(name)))
        except TimeoutError:
            raise DemoFailed(f"the demo took longer than {LONGEST_S:g} s") from None
        except asyncio.CancelledError:
            raise DemoFailed("told to end") from None
        except grpc.aio.AioRpcError as error:
            raise DemoFailed(f"the scheduler says {error.code().name.lower()}: {error.details()}") from None
        if remaining := left(Path(name)):
            raise DemoFailed(f"{len(remaining)} processes are left")
    say("\nWhat was shown, and checked:")
    for line in (*shown, "nothing is left: no process, no file"):
        say(f"  - {line}")
    return 0


def example_job() -> Path:
    """Return the program that the gangs run. Raises InternalError where the installation is broken."""
    from optsched.files.datafolders import data_folder

    return data_folder("examples") / "train.py"


class Story:
    """What happens, in order; each part waits for what the scheduler tells, and checks it."""

    def __init__(self, cluster: DemoCluster, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._tell = tell
        self._shown: list[str] = []

    async def tell_all(self) -> list[str]:
        """Go through it all; return what was shown."""
        await self._agents_join()
        await self._gangs_start()
        await self._urgent_one_takes_room()
        await self._victim_goes_on()
        await self._agent_dies()
        await self._all_finish()
        return self._shown

    async def _agents_join(self) -> None:
        from optsched.cli.demo_cluster import GPUS, RACKS

        cluster = self._cluster
        self._tell(f"a scheduler serves gRPC at {cluster.grpc_address}, REST at {cluster.rest_address}")
        nodes = [node for names in RACKS.values() for node in names]
        for node in nodes:
            await cluster.start_agent(node)
        await self._until_up(nodes)
        self._tell(f"{len(nodes)} agents are in service: {len(nodes) * GPUS} GPUs in {len(RACKS)} racks")

    async def _until_up(self, nodes: list[str]) -> None:
        """Wait until nodes are up: looked at again whenever the scheduler tells something of a node."""
        from optsched.wire.v1 import cluster_pb2, cluster_pb2_grpc, types_pb2

        stub = cluster_pb2_grpc.ClusterStub(self._cluster.channel)  # type: ignore[no-untyped-call]
        events = stub.WatchEvents(cluster_pb2.WatchEventsRequest(after_sequence=0))
        while True:
            found = await stub.ListNodes(cluster_pb2.ListNodesRequest())
            up = {each.spec.id for each in found.nodes if each.state == types_pb2.NODE_STATE_UP}
            if up >= set(nodes):
                events.cancel()
                return
            await events.read()

    async def _gangs_start(self) -> None:
        await self._submit("pretrain", "language", 24, "P2", on_signal=True)
        await self._submit("finetune", "vision", 16, "P3", on_signal=True)
        await self._submit("sweep", "vision", 16, "P3", on_signal=False)
        first = ("pretrain", "finetune", "sweep")
        await self._cluster.until(lambda: all(self._runs(name) for name in first))
        for name in first:
            job = self._cluster.jobs[name]
            self._tell(f"{name} runs: {job.gang_size} GPUs, priority {job.priority_class}, on {_nodes(job)}")
        self._shown.append("gangs of 24, 16 and 16 GPUs started whole, one process on each node, 8 GPUs for each")
        await self._cluster.until(lambda: all(self._cluster.jobs[name].checkpoints for name in first[:2]))
        self._tell("they have written their first checkpoints; 8 of 64 GPUs are free")

    async def _submit(self, name: str, team: str, gpus: int, priority: str, *, on_signal: bool) -> None:
        import sys

        from optsched.wire.v1 import types_pb2

        folder = self._cluster.folder / "checkpoints" / name
        flags = {"folder": str(folder), "steps": str(STEPS[name]), "step-s": str(STEP_S)}
        words = [word for key, value in flags.items() for word in (f"--{key}", value)]
        interval_s = 2.0 if on_signal else 3600.0
        await self._cluster.submit(
            id=name,
            team=team,
            user="demo",
            gpus=gpus,
            gpus_per_node=8,
            priority_class=priority,
            command=[sys.executable, str(example_job()), *words],
            environment={"OMP_NUM_THREADS": "1"},
            checkpoint=types_pb2.CheckpointConfig(
                interval_s=interval_s, cost_s=1.0, restart_s=5.0, on_signal=on_signal
            ),
        )

    def _runs(self, name: str) -> bool:
        from optsched.wire.v1 import types_pb2

        return self._cluster.is_in(name, types_pb2.JOB_STATE_RUNNING)

    async def _urgent_one_takes_room(self) -> None:
        from optsched.cli.demo_cluster import DemoFailed
        from optsched.wire.v1 import types_pb2

        cluster = self._cluster
        await self._submit("hotfix", "vision", 16, "P0", on_signal=True)
        self._tell("hotfix is submitted: 16 GPUs, priority P0; only 8 are free, so somebody has to make room")
        await cluster.until(lambda: any(job.preemptions for job in cluster.jobs.values()))
        victims = sorted(name for name, job in cluster.jobs.items() if job.preemptions)
        if victims != ["finetune"]:
            raise DemoFailed(f"{', '.join(victims)} had to make room, and finetune is the cheapest")
        self._tell(
            "finetune is told to stop: it saves its work on a signal and loses nothing, "
            "while sweep, as large, would lose all; pretrain is inside its team's quota"
        )
        await cluster.until(lambda: cluster.is_in("finetune", types_pb2.JOB_STATE_QUEUED))
        stopped = cluster.run_output(cluster.jobs["finetune"], 1).strip().rpartition("\n")[2]
        self._tell(f"finetune {stopped}")
        self._stopped_at = _step(stopped)
        await cluster.until(lambda: self._runs("hotfix"))
        self._tell(f"hotfix runs on {_nodes(cluster.jobs['hotfix'])}")
        self._shown.append("an urgent gang displaced the cheapest victim of its team, and nobody else")

    async def _victim_goes_on(self) -> None:
        from optsched.cli.demo_cluster import DemoFailed
        from optsched.wire.v1 import types_pb2

        cluster = self._cluster
        await cluster.until(lambda: cluster.is_in("hotfix", types_pb2.JOB_STATE_COMPLETED))
        self._tell("hotfix is completed")
        await cluster.until(lambda: self._runs("finetune") or cluster.is_in("finetune", types_pb2.JOB_STATE_COMPLETED))
        count = len(cluster.jobs["finetune"].checkpoints)
        await cluster.until(
            lambda: (
                "goes on" in cluster.run_output(cluster.jobs["finetune"], 2)
                or len(cluster.jobs["finetune"].checkpoints) != count
                or not self._runs("finetune")
            )
        )
        line = cluster.run_output(cluster.jobs["finetune"], 2).partition("\n")[0]
        if _step(line) != self._stopped_at:
            raise DemoFailed(f"finetune stopped after step {self._stopped_at}, and says: {line or 'nothing'}")
        self._tell(f"finetune runs again, on {_nodes(cluster.jobs['finetune'])}: {line}")
        self._shown.append(
            f"the victim saved its work within its grace, and went on from that very step, {_step(line)}"
        )

    async def _agent_dies(self) -> None:
        cluster = self._cluster
        job = cluster.jobs["pretrain"]
        self._lost = job.placement[-1].node
        await cluster.kill_agent(self._lost)
        self._tell(f"the agent of {self._lost}, where pretrain runs, is killed (kill -9)")
        await cluster.until(lambda: cluster.jobs["pretrain"].run > 1 or cluster.jobs["pretrain"].infra_failures > 0)
        self._tell(f"its lease is over: {cluster.jobs['pretrain'].reason}")
        await cluster.until(lambda: cluster.jobs["pretrain"].run > 1 and self._runs("pretrain"))
        self._tell(f"pretrain runs again, on {_nodes(cluster.jobs['pretrain'])}")

    async def _all_finish(self) -> None:
        from optsched.cli.demo_cluster import DemoFailed
        from optsched.wire.v1 import types_pb2

        cluster = self._cluster
        await cluster.start_agent(self._lost)
        await self._until_up([self._lost])
        self._tell(f"the agent of {self._lost} is started again: it ends what is left there, and is back in service")
        names = ("pretrain", "finetune", "sweep", "hotfix")
        told: set[str] = {"hotfix"}
        while len(told) < len(names):
            await cluster.until(lambda: any(self._over(name) for name in names if name not in told))
            for name in names:
                if name not in told and self._over(name):
                    told.add(name)
                    job = cluster.jobs[name]
                    if job.state != types_pb2.JOB_STATE_COMPLETED:
                        raise DemoFailed(f"{name} has not completed: {job.reason}")
                    self._tell(f"{name} is completed, in run {job.run}")
        resumed = cluster.run_output(cluster.jobs["pretrain"], cluster.jobs["pretrain"].run).partition("\n")[0]
        self._shown.append(f"a gang that lost an agent started again without it ({resumed}), and finished")
        for name in names:
            await self._same_as_uninterrupted(name)
        self._shown.append("all four gangs ended with the weights, bit for bit, that one process gives undisturbed")

    def _over(self, name: str) -> bool:
        from optsched.wire.v1 import types_pb2

        ends = (types_pb2.JOB_STATE_COMPLETED, types_pb2.JOB_STATE_FAILED, types_pb2.JOB_STATE_CANCELLED)
        return self._cluster.jobs[name].state in ends

    async def _same_as_uninterrupted(self, name: str) -> None:
        """Train the same in one process without a pause, and compare the weights."""
        import asyncio
        import sys

        from optsched.cli.demo_cluster import DemoFailed

        folder = self._cluster.folder / "undisturbed" / name
        words = ("--folder", str(folder), "--steps", str(STEPS[name]), "--interval-s", "0")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(example_job()), *words), stdout=asyncio.subprocess.PIPE
        )
        wanted, _ = await process.communicate()
        job = self._cluster.jobs[name]
        found = self._cluster.run_output(job, job.run).strip().rpartition("\n")[2]
        if found != wanted.decode().strip().rpartition("\n")[2] or not found.startswith("done"):
            raise DemoFailed(f"{name} ended with other weights than undisturbed: {found}")


def _nodes(job: types_pb2.Job) -> str:
    return ", ".join(each.node for each in job.placement)


def _step(line: str) -> int:
    """Return the step that a line of the example job names, -1 where it names none."""
    import re

    found = re.search(r"after step (\d+)", line)
    return int(found[1]) if found else -1

"""Loads the service as a cluster of 10,000 GPUs would, and says what it took.

    python -m benchmarks.service_load submit  FOLDER    16 clients that submit durably, one job at a time
    python -m benchmarks.service_load queue   FOLDER    100,000 queued jobs: taken in, listed, a restart after a kill
    python -m benchmarks.service_load agents  FOLDER    1,250 agents: what they cost, one lost, the scheduler restarted
    python -m benchmarks.service_load chaos   FOLDER    the scheduler is killed again and again while all goes on

FOLDER is new or empty and on the disk to measure. Scheduler, clients and agents share one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.service.clients import Prober, Submitters, all_jobs, spread, submit_many
from benchmarks.service.process import Scheduler, cores, machine, use_of
from benchmarks.service.world import GPUS, World, until
from optsched.wire.v1 import cluster_pb2, scheduler_pb2, types_pb2


class Table:
    """Rows of what was measured, each with the CPU seconds that the scheduler and its helpers used since the last.

    Where other programs share the machine, those tell more than the clock.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._before: dict[int, float] = {}

    def row(self, what: str, seen: str, wanted: str = "") -> None:
        """Print a row."""
        now = use_of(self._scheduler.pid).cpu_s
        used = {pid: cpu - self._before.get(pid, 0.0) for pid, cpu in now.items()}
        self._before = now
        spent = " + ".join(f"{each:.1f}" for each in used.values())
        print(f"| {what} | {seen} | {spent or '-'} | {wanted} |", flush=True)


# Submits


async def submit(args: argparse.Namespace) -> None:
    """16 clients submit for a while; then the scheduler is killed, and what it acknowledged is looked for."""
    scheduler = Scheduler(args.folder)
    await scheduler.start()
    row = Table(scheduler).row
    load = Submitters(scheduler.address, args.clients)
    await load.run(2.0)
    row("warming up", f"{len(load.took_ms):,} submits")
    load.took_ms.clear()
    rate = await load.run(args.seconds)
    row(f"durable submits, {args.clients} clients", f"{rate:,.0f}/s", "500/s, aim 2,000/s")
    row("time of a submit", spread(load.took_ms), "p99 100 ms, aim 30 ms")
    await scheduler.kill()
    ready_s = await scheduler.start()
    found, _ = await all_jobs(scheduler.address)
    lost = [key for key, name in load.acked.items() if name not in found]
    row("acknowledged jobs that a kill lost", f"{len(lost)} of {len(load.acked):,}", "0")
    row("restart after the kill", f"{ready_s:.1f} s")
    await scheduler.stop()


# A long queue


async def queue(args: argparse.Namespace) -> None:
    """Fill the queue behind a full cluster, page through it, submit some more, and restart."""
    world = World(args.folder, args.nodes, args.flags, lambda: None)
    scheduler = world.scheduler
    await world.begin()
    row = Table(scheduler).row
    row(f"{args.nodes:,} agents in service", "")
    prober = Prober(scheduler.address)
    prober.start()
    began = time.perf_counter()
    took = await submit_many(scheduler.address, args.jobs)
    spent = time.perf_counter() - began
    row(f"{args.jobs:,} jobs taken in, 1,000 a request", f"{spent:.1f} s; a request {spread(took)}")
    found, took = await all_jobs(scheduler.address, 100)
    row(f"a page of 100 of {len(found):,} jobs", spread(took), "100 ms")
    found, took = await all_jobs(scheduler.address, 1000)
    row(f"a page of 1,000 of {len(found):,} jobs", spread(took))
    load = Submitters(scheduler.address, args.clients, again=True)
    rate = await load.run(args.seconds)
    seen = f"{rate:,.0f}/s; {spread(load.took_ms)}; {load.failed} not answered within 10 s"
    row(f"durable submits beside them, {args.clients} clients", seen)
    row("GetStatus, 20 times a second all the while", spread(await prober.stop()))
    planned = [each for each in rounds(scheduler.log) if each["queued"] > 0.9 * args.jobs]
    for key, what in (("wall_s", "planned in"), ("took_s", "from its begin until all of it is in force")):
        times = spread([1000.0 * each[key] for each in planned]) if planned else "none was"
        row(f"{len(planned)} rounds over them, each {what}", times, "a budget of 2 s")
    row("memory of the scheduler and its helpers", memory(scheduler), "2 GiB")
    await scheduler.kill()
    ready_s = await scheduler.start()
    row("restart after a kill", f"{ready_s:.1f} s", "10 s")
    there, _ = await all_jobs(scheduler.address)
    missing = len(set(found) | set(load.acked.values())) - len(there)
    row("jobs that the kill lost", f"{missing} of {len(there):,}", "0")
    stopped_s = await scheduler.stop()
    ready_s = await scheduler.start()
    row("stopped in order, and started again", f"{stopped_s:.1f} s, {ready_s:.1f} s", "10 s to start")
    await world.end()


def rounds(log: Path) -> list[dict[str, float]]:
    """Return what a scheduler's log tells of each round."""
    found = []
    for line in log.read_text().splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "took_s" in words:
            found.append({key: float(words[key]) for key in ("wall_s", "took_s", "queued", "starts")})
    return found


def memory(scheduler: Scheduler) -> str:
    """Return the resident memory of each process of the scheduler."""
    return " + ".join(f"{mib:,.0f} MiB" for mib in use_of(scheduler.pid).rss_mib.values())


# Agents


async def whole_gang(world: World, nodes: int) -> tuple[float, float]:
    """Start a gang on so many nodes and withdraw it; return the seconds from its commit to its last start command, and
    from its submission until it runs.
    """
    began = time.time()
    await world.gang("whole", nodes * GPUS)

    async def on() -> bool:
        return await world.runs("whole", 1)

    await until(on, "the large gang runs")
    runs_s = time.time() - began
    told = await world.jobs.ListJobEvents(scheduler_pb2.ListJobEventsRequest(id="whole", page_size=1000), timeout=10.0)
    committed_at = next(each.at for each in told.events if each.kind == "placed")
    assert len(world.ledger.started["whole", 1]) == nodes
    took = world.ledger.last_start_at["whole", 1] - committed_at
    await world.jobs.CancelJob(scheduler_pb2.CancelJobRequest(id="whole"), timeout=10.0)
    await until(world.all_free, "its GPUs are free")
    return took, runs_s


async def agents(args: argparse.Namespace) -> None:
    """Let agents beat on a full cluster, lose one, and restart the scheduler under them."""
    world = World(args.folder, args.nodes, args.flags, lambda: None)
    row = Table(world.scheduler).row
    ready_s, up_s = await world.begin()
    row(f"scheduler ready, then {args.nodes:,} agents registered and probed", f"{ready_s:.1f} s, {up_s:.1f} s")
    took, runs_s = await whole_gang(world, min(512, args.nodes))
    row(
        f"a gang of {min(512, args.nodes)} nodes: commit to the last start command, and until it runs",
        f"{took:.2f} s, {runs_s:.2f} s",
        "2 s",
    )
    gangs = [f"gang{number}" for number in range(args.nodes // 10)]
    for name in gangs:
        await world.gang(name, 8 * GPUS)

    async def all_run() -> bool:
        return all([await world.runs(name, 1) for name in gangs])

    took = await until(all_run, "all gangs run")
    row(f"{len(gangs)} gangs of 64 GPUs started", f"{took:.1f} s")
    before = use_of(world.scheduler.pid)
    lost_before = sum(agent.registrations for agent in world.agents.values())
    await asyncio.sleep(args.seconds)
    after = use_of(world.scheduler.pid)
    used = cores(before, after)
    row("cores used while agents beat", " + ".join(f"{each:.2f}" for each in used.values()), "1")
    again = sum(agent.registrations for agent in world.agents.values()) - lost_before
    row(
        f"streams that broke in these {args.seconds:.0f} s, nodes that are not up",
        f"{again}, {await world.not_up()}",
        "0, 0",
    )
    row("memory", memory(world.scheduler), "2 GiB")
    victim = (await world.get("gang0")).placement[0].node
    losing = asyncio.create_task(world.lost_at(victim))
    await asyncio.sleep(0.5)
    killed_at = time.time()
    await world.agents.pop(victim).die()

    async def runs_again() -> bool:
        return await world.runs("gang0", 2)

    await until(runs_again, "the gang of a lost node runs again")
    given_up_at = await losing
    seen = f"{given_up_at - killed_at:.1f} s, {time.time() - given_up_at:.1f} s later"
    row("an agent is killed: its node is given up after, and its gang runs again", seen, "10 s, aim 3 s")
    assert victim not in {each.node for each in (await world.get("gang0")).placement}
    await world.scheduler.kill()
    ready_s = await world.scheduler.start()
    began = time.perf_counter()

    async def all_back() -> bool:
        status = await world.cluster.GetStatus(cluster_pb2.GetStatusRequest(), timeout=10.0)
        return bool(status.agents_connected == len(world.agents))

    await until(all_back, "all agents are back")
    back_s = time.perf_counter() - began
    row("the scheduler is killed and restarted: ready, then all agents back", f"{ready_s:.1f} s, {back_s:.1f} s")
    kept = sum([await world.runs(name, 2 if name == "gang0" else 1) for name in gangs])
    row("gangs that ran on untouched", f"{kept} of {len(gangs)}", "all")
    row("gangs started twice, GPUs given twice", f"{len(world.ledger.faults)}", "0")
    await world.end()


# Kills


async def chaos(args: argparse.Namespace) -> None:
    """Kill the scheduler at moments drawn from a seed, while clients submit and gangs come and go."""
    draw = np.random.default_rng(args.seed)
    world = World(args.folder, args.nodes, args.flags, lambda: float(draw.uniform(0.5, 4.0)))
    row = Table(world.scheduler).row
    await world.begin()
    load = Submitters(world.scheduler.address, args.clients, again=True, pause_s=0.2)
    loading = asyncio.create_task(load.run(1e9))
    ready: list[float] = []
    for _ in range(args.kills):
        await asyncio.sleep(float(draw.uniform(0.2, 6.0)))
        await world.scheduler.kill()
        ready.append(await world.scheduler.start())
    load.stop()
    await loading

    found, _ = await all_jobs(world.scheduler.address)
    lost = [name for name in load.acked.values() if name not in found]
    twice = len(load.acked) - len(set(load.acked.values()))
    row("kills of the scheduler", f"{args.kills}; ready again {spread([1000 * each for each in ready])}")
    row("acknowledged jobs that were lost", f"{len(lost)} of {len(load.acked):,}", "0")
    row(
        "submits answered with another's job, jobs nobody submitted", f"{twice}, {len(found) - len(load.acked)}", "0, 0"
    )
    began = time.perf_counter()
    while time.perf_counter() - began < args.seconds:
        await asyncio.sleep(1.0)
        found, _ = await all_jobs(world.scheduler.address)
        if all(each.state == types_pb2.JOB_STATE_COMPLETED for each in found.values()):
            break
    done = sum(each.state == types_pb2.JOB_STATE_COMPLETED for each in found.values())
    row("jobs completed by", f"{done:,} of {len(found):,}, {time.perf_counter() - began:.0f} s after the last kill")
    again = [each for each in found.values() if each.run > 1]
    row("jobs that needed more than one run", f"{len(again)} of {len(found):,}")
    row(
        "gangs started, started twice or on GPUs of others",
        f"{len(world.ledger.started):,}, {len(world.ledger.faults)}",
        "0",
    )
    for fault in world.ledger.faults[:10]:
        print(fault)
    await world.end()


SCENARIOS = {"submit": submit, "queue": queue, "agents": agents, "chaos": chaos}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one scenario, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, help="how long to load or to watch (default 30, agents 600)")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", dest="flags", action="append", default=[], help="a flag for optsched serve")
    args = parser.parse_args(argv)
    if args.seconds is None:
        args.seconds = 600.0 if args.scenario == "agents" else 30.0
    args.folder.mkdir(parents=True, exist_ok=True)
    print(f"{args.scenario}: {machine(args.folder)}\n\n| what | seen | CPU s | wanted |\n|---|---|---|---|", flush=True)
    asyncio.run(SCENARIOS[args.scenario](args))
    print(f"\nload average at the end: {machine(args.folder).rpartition('load average ')[2]}")


if __name__ == "__main__":
    main()

"""Agents that die, freeze, double and come back; schedulers that go and come."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from optsched.wire.v1 import agent_pb2 as wire
from tests.agent.agents import agent, begin, carriers, log_of, run, script, sweep
from tests.agent.scheduler import FakeScheduler, scheduler

WORKS = "import signal; signal.pause()"


def ends_by_signal(code: int) -> str:
    """A task that ends with a code when it gets SIGUSR2, and reports once it is ready for that."""
    return (
        f"import os, signal, sys\nsignal.signal(signal.SIGUSR2, lambda *_: sys.exit({code}))\n"
        "open(os.environ['OPTSCHED_REPORTS'], 'a').write('{\"checkpoint\": \"ready\"}\\n')\n"
        "while True: signal.pause()"
    )


async def ready(s: FakeScheduler, job: str) -> None:
    await s.until(lambda: any(each.job == job for each in s.bodies("checkpoint")))


def test_an_agent_that_was_killed_finds_its_run_at_work(tmp_path: Path) -> None:
    """Its start has a larger number; the task never noticed; the end that comes later is seen with its code."""
    text = ends_by_signal(7)

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port) as first:
            before = await s.connected()
            await s.run("train", 1, script(text))
            await ready(s, "train")
            first.kill()
            await first.ended()
            (task,) = tasks_of(tmp_path / "a", "train")
            async with agent(tmp_path / "a", s.port):
                after = await s.connected(2)
                assert after.register.session > before.register.session
                assert after.register.epoch == 1
                (held,) = after.register.held
                assert (held.job, held.run, held.phase) == ("train", 1, wire.RUN_PHASE_STARTED)
                s.streams[-1].say(read_log=wire.ReadLog(request=1, job="train", run=1))
                os.kill(task, signal.SIGUSR2)
                ended = await s.report("train", 1, wire.OUTCOME_FAILED)
                assert ended.exit_code == 7
                await s.report("train", 1, wire.OUTCOME_RELEASED)

    run(story())


def tasks_of(folder: Path, job: str, run: int = 1) -> list[int]:
    import json

    return [
        each["pid"] for each in json.loads((folder / "runs" / job / str(run) / "started.json").read_text())["tasks"]
    ]


def test_a_run_that_ends_while_no_agent_is_there_is_reported_by_the_next(tmp_path: Path) -> None:
    text = ends_by_signal(0)

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port) as first:
            await s.connected()
            await s.run("train", 1, script(text))
            await ready(s, "train")
            first.kill()
            await first.ended()
            (task,) = tasks_of(tmp_path / "a", "train")
            os.kill(task, signal.SIGUSR2)
            await gone(task)
            async with agent(tmp_path / "a", s.port):
                await s.report("train", 1, wire.OUTCOME_OK)

    run(story())


async def gone(pid: int) -> None:
    """Wait until a process that is no child of ours has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(handle)
    os.close(handle)


def test_a_kill_reaches_a_run_that_was_found_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port) as first:
            await s.connected()
            await s.run("train", 1, script(WORKS))
            first.kill()
            await first.ended()
            async with agent(tmp_path / "a", s.port):
                await s.connected(2)
                s.kill("train")
                await s.report("train", 1, wire.OUTCOME_RELEASED)
                assert carriers(tmp_path / "a") == []

    run(story())


def test_where_the_keeper_was_killed_its_tasks_are_ended_and_the_machine_is_blamed(tmp_path: Path) -> None:
    text = "import subprocess, signal\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nsignal.pause()"

    async def story() -> None:
        import json

        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            await s.run("train", 1, script(text))
            keeper = json.loads((tmp_path / "a" / "runs" / "train" / "1" / "keeper.json").read_text())["pid"]
            os.kill(keeper, signal.SIGKILL)
            ended = await s.report("train", 1, wire.OUTCOME_INFRA)
            assert "was ended from outside" in ended.why
            await s.report("train", 1, wire.OUTCOME_RELEASED)
            assert carriers(tmp_path / "a") == []

    run(story())


def test_tasks_live_on_while_the_scheduler_is_away_and_nothing_said_meanwhile_is_lost(tmp_path: Path) -> None:
    """Two runs; one ends while nobody listens. A new scheduler of a larger epoch hears of both."""

    async def story() -> None:
        old = FakeScheduler(epoch=1)
        await old.start()
        text = ends_by_signal(0)
        async with agent(tmp_path / "a", old.port):
            await old.connected()
            await old.run("stays", 1, script(WORKS), (0,))
            await old.run("ends", 1, script(text), (1,), tasks=[wire.Task(gpu_indices=[1], gpus=1)])
            await ready(old, "ends")
            port = old.port
            await old.stop()
            (task,) = tasks_of(tmp_path / "a", "ends")
            os.kill(task, signal.SIGUSR2)
            await gone(task)
            new = FakeScheduler(epoch=2)
            await new.start(port)
            stream = await new.connected()
            held = {each.job: each.phase for each in stream.register.held}
            assert held["stays"] == wire.RUN_PHASE_STARTED
            assert "ends" in held
            ended = await new.report("ends", 1, wire.OUTCOME_OK)
            assert ended.epoch == 2, "that of the stream that carries it"
            new.kill("stays")
            await new.report("stays", 1, wire.OUTCOME_RELEASED)
            await new.stop()

    run(story())


def test_what_was_not_acknowledged_is_said_again_on_the_next_stream(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler(acks=False) as s, agent(tmp_path / "a", s.port):
            first = await s.connected()
            await s.run("train", 1, script("print(1)"))
            await s.report("train", 1, wire.OUTCOME_OK)
            s.acks = True
            first.end()
            await s.connected(2)
            await s.report("train", 1, wire.OUTCOME_OK, count=2)
            order = [each.outcome for each in s.bodies("report")]
            assert order[:3] == order[3:6] == [wire.OUTCOME_RESERVED, wire.OUTCOME_STARTED, wire.OUTCOME_OK]

    run(story())


def test_a_frozen_agent_that_wakes_under_a_new_leader_refuses_the_old_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler(epoch=5) as s, agent(tmp_path / "a", s.port) as one:
            stream = await s.connected()
            await s.run("train", 1, script(WORKS))
            os.kill(one.process.pid, signal.SIGSTOP)
            # Meanwhile another leads; what the old one still says waits in the stream, behind the new one's first word.
            stream.say(release=wire.Release(header=s.header("other", 1, epoch=6)))
            s.kill("train", epoch=5)
            s.reserve("late", 1, (1,), epoch=5)
            os.kill(one.process.pid, signal.SIGCONT)
            fenced = await s.report("train", 1, wire.OUTCOME_FENCED)
            assert "epoch 5 is over, 6 is in force" in fenced.why
            await s.report("late", 1, wire.OUTCOME_FENCED)
            assert len(tasks_of(tmp_path / "a", "train")) == 1
            assert s.reports("train", 1, wire.OUTCOME_RELEASED) == []
            s.kill("train", epoch=6)
            await s.report("train", 1, wire.OUTCOME_RELEASED)

    run(story())


def test_a_scheduler_of_an_older_epoch_is_left(tmp_path: Path) -> None:
    """Also after a restart of the agent: the largest epoch is on disk."""

    async def story() -> None:
        async with scheduler(epoch=9) as new:
            async with agent(tmp_path / "a", new.port) as first:
                await new.connected()
                await new.run("train", 1, script("print(1)"))
                first.kill()
                await first.ended()
            async with scheduler(epoch=8) as old, agent(tmp_path / "a", old.port):
                await old.connected(2)
                assert old.streams[0].register.epoch == 9
                assert old.bodies("report") == []

    run(story())


def test_two_agents_in_one_folder_do_not_work_side_by_side(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            second = await begin(tmp_path / "a", s.port)
            assert await second.ended() == 1
            assert "another agent works in this folder" in second.said

    run(story())


def test_an_agent_that_is_refused_for_good_ends_and_leaves_its_runs_alone(tmp_path: Path) -> None:
    """Two agents claim one node: the one that is not served stops, with the reason; its tasks go on."""

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port) as first:
            stream = await s.connected()
            await s.run("train", 1, script(WORKS))
            why = "n1 is served by another"
            s.refuse = wire.Refused(code=wire.REFUSAL_CODE_TWO_AGENTS, reason=why)
            stream.end()
            assert await first.ended() == 1
            assert why in first.said
            (task,) = tasks_of(tmp_path / "a", "train")
            os.kill(task, 0)
            sweep(tmp_path / "a")

    run(story())


def test_an_agent_that_is_told_to_end_leaves_its_runs_at_work(tmp_path: Path) -> None:
    """As for an upgrade."""

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port) as first:
            await s.connected()
            await s.run("train", 1, script(WORKS))
            first.process.terminate()
            assert await first.ended() == 0
            (task,) = tasks_of(tmp_path / "a", "train")
            os.kill(task, 0)
            async with agent(tmp_path / "a", s.port):
                await s.connected(2)
                s.signal("train")
                await s.report("train", 1, wire.OUTCOME_RELEASED)

    run(story())


def test_a_repeated_command_is_answered_as_the_first_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            await s.run("train", 1, script("print('once'); " + WORKS))
            s.begin("train", 1, script("print('twice')"))
            await s.report("train", 1, wire.OUTCOME_STARTED, count=2)
            s.reserve("train")
            await s.report("train", 1, wire.OUTCOME_RESERVED, count=2)
            s.kill("train")
            s.kill("train")
            await s.report("train", 1, wire.OUTCOME_RELEASED)
            s.release("train")
            await s.report("train", 1, wire.OUTCOME_RELEASED, count=2)
            assert "twice" not in log_of(tmp_path / "a", "train")
            # Reordered: a start of a run that is over begins nothing.
            s.begin("train", 1, script("print('thrice')"))
            await s.report("train", 1, wire.OUTCOME_REFUSED)

    run(story())

"""Tasks as they really are: started, logged, ended, classified, and never left behind."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from optsched.wire.v1 import agent_pb2 as wire
from tests.agent.agents import agent, carriers, log_of, run, script
from tests.agent.scheduler import scheduler

DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('deaf', flush=True)
while True: time.sleep(60)
"""
POLITE = """
import signal, sys
def stop(*_):
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
open(sys.argv[1], 'w').close()
signal.pause()
"""


def test_a_run_from_reserve_to_released(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            stream = await s.connected()
            assert stream.register.spec.gpus == 4
            s.reserve("train", 1, (0,))
            reserved = await s.report("train", 1, wire.OUTCOME_RESERVED)
            assert 20000 <= reserved.port <= 29999
            s.begin("train", 1, script("import sys; print('out', flush=True); print('err', file=sys.stderr)"))
            await s.report("train", 1, wire.OUTCOME_STARTED)
            ended = await s.report("train", 1, wire.OUTCOME_OK)
            assert ended.epoch == 1
            s.release("train")
            await s.report("train", 1, wire.OUTCOME_RELEASED)
            assert log_of(tmp_path / "a", "train") == "out\n"
            assert log_of(tmp_path / "a", "train", stream="err") == "err\n"
            assert carriers(tmp_path / "a") == []

    run(story())


def test_what_torchrun_pytorch_and_jax_look_for_is_in_the_environment(tmp_path: Path) -> None:
    """A gang of 4 tasks with a GPU each, two of them here: each sees both GPUs, and its own is that of LOCAL_RANK."""

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            tasks = [wire.Task(rank=2 + n, local_rank=n, gpu_indices=[3 - n], gpus=1, slice=[1, n]) for n in (0, 1)]
            await s.run(
                "train",
                3,
                script("import json, os; print(json.dumps(dict(os.environ)))"),
                (2, 3),
                tasks=tasks,
                world_size=4,
                node_count=2,
                node_rank=1,
                gang_gpus=4,
                environment={"MINE": "1"},
                restore_version="v7",
                checkpoint_interval_s=900,
                user="ada",
            )
            reserved = await s.report("train", 3, wire.OUTCOME_RESERVED)
            await s.report("train", 3, wire.OUTCOME_OK)
            found = json.loads(log_of(tmp_path / "a", "train", 3, 3))
            wanted = {
                "CUDA_VISIBLE_DEVICES": "3,2",
                "RANK": "3",
                "WORLD_SIZE": "4",
                "LOCAL_RANK": "1",
                "LOCAL_WORLD_SIZE": "2",
                "NODE_RANK": "1",
                "NNODES": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(reserved.port),
                "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{reserved.port}",
                "OPTSCHED_GPUS": "2",
                "OPTSCHED_SLICE": "1,1",
                "OPTSCHED_JOB": "train",
                "OPTSCHED_RUN": "3",
                "OPTSCHED_RESTORE_VERSION": "v7",
                "OPTSCHED_CHECKPOINT_INTERVAL_S": "900",
                "MINE": "1",
            }
            assert {key: found.get(key) for key in wanted} == wanted

    run(story())


@pytest.mark.parametrize(
    ("command", "outcome", "code", "number", "why"),
    [
        (["sh", "-c", "exit 3"], wire.OUTCOME_FAILED, 3, None, "rank 0 exited with 3"),
        (["sh", "-c", "kill -SEGV $$"], wire.OUTCOME_FAILED, None, 11, "SIGSEGV"),
        (["sh", "-c", "kill -KILL $$"], wire.OUTCOME_INFRA, None, 9, "sent by neither the job nor the scheduler"),
        (["sh", "-c", "kill -TERM $$"], wire.OUTCOME_INFRA, None, 15, "sent by neither the job nor the scheduler"),
        (["no-such-program"], wire.OUTCOME_FAILED, 127, None, "No such file"),
        (["/etc/passwd"], wire.OUTCOME_FAILED, 126, None, "Permission denied"),
    ],
    ids=["code", "segv", "killed", "terminated", "not_found", "not_executable"],
)
def test_an_end_is_classified(
    tmp_path: Path, command: list[str], outcome: int, code: int | None, number: int | None, why: str
) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            s.reserve("train")
            await s.report("train", 1, wire.OUTCOME_RESERVED)
            s.begin("train", 1, command)
            ended = await s.report("train", 1, outcome)
            assert why in ended.why
            assert (ended.exit_code if ended.HasField("exit_code") else None) == code
            assert (ended.exit_signal if ended.HasField("exit_signal") else None) == number
            assert ended.rank == 0
            # One that ended badly is released without being asked.
            await s.report("train", 1, wire.OUTCOME_RELEASED)

    run(story())


def test_a_folder_that_does_not_exist_is_the_jobs_own_fault(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            s.reserve("train")
            await s.report("train", 1, wire.OUTCOME_RESERVED)
            s.begin("train", 1, ["true"], working_directory="/no/such/folder")
            assert "/no/such/folder" in (await s.report("train", 1, wire.OUTCOME_FAILED)).why

    run(story())


def test_one_task_that_fails_takes_the_others_on_its_node_along(tmp_path: Path) -> None:
    text = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(5)\nwhile True: time.sleep(60)"

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            tasks = [wire.Task(rank=n, local_rank=n, gpu_indices=[n], gpus=1) for n in range(3)]
            await s.run("train", 1, script(text), (0, 1, 2), tasks=tasks)
            ended = await s.report("train", 1, wire.OUTCOME_FAILED)
            assert (ended.rank, ended.exit_code) == (1, 5)
            await s.report("train", 1, wire.OUTCOME_RELEASED)
            assert carriers(tmp_path / "a") == []

    run(story())


def test_a_task_that_is_told_saves_its_work_and_is_released_without_an_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            ready = POLITE.replace("open(sys.argv[1], 'w').close()", REPORT.format(name="ready"))
            await s.run("train", 1, script(ready))
            await s.until(lambda: s.bodies("checkpoint"))
            s.signal("train")
            released = await s.report("train", 1, wire.OUTCOME_RELEASED)
            assert released.why == "all its tasks exited with 0"
            assert s.reports("train", 1, wire.OUTCOME_OK) == []
            assert log_of(tmp_path / "a", "train") == "saved\n"

    run(story())


REPORT = "import os; open(os.environ['OPTSCHED_REPORTS'], 'a').write('{{\"checkpoint\": \"{name}\"}}\\n')"


def test_a_task_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    """By the agent itself: the scheduler says nothing more here."""
    deaf = DEAF.replace("print('deaf', flush=True)", REPORT.format(name="ready"))

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            await s.run("train", 1, script(deaf))
            await s.until(lambda: s.bodies("checkpoint"))
            s.signal("train", grace_s=0.3)
            released = await s.report("train", 1, wire.OUTCOME_RELEASED)
            assert "SIGKILL" in released.why or "exited" in released.why
            assert carriers(tmp_path / "a") == []

    run(story())


def test_a_kill_leaves_no_orphan_whatever_session_it_has_fled_to(tmp_path: Path) -> None:
    """The task starts a child in a session of its own, which starts a grandchild and leaves it alone: a daemon."""
    text = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        {REPORT.format(name="daemon").replace("os.environ['OPTSCHED_REPORTS']", "where")}
        while True: time.sleep(60)
    os._exit(0)
while True: time.sleep(60)
""".replace("import os, time", "import os, time\nwhere = os.environ['OPTSCHED_REPORTS']")

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            await s.run("train", 1, script(text))
            await s.until(lambda: s.bodies("checkpoint"))
            assert len(carriers(tmp_path / "a")) >= 3, "the keeper, the task and its daemon"
            s.kill("train")
            await s.report("train", 1, wire.OUTCOME_RELEASED)
            assert carriers(tmp_path / "a") == []

    run(story())


def test_what_a_task_leaves_behind_when_it_ends_well_is_ended_too(tmp_path: Path) -> None:
    text = "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)"

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            await s.run("train", 1, script(text))
            await s.report("train", 1, wire.OUTCOME_OK)
            assert carriers(tmp_path / "a") == []

    run(story())


def test_checkpoints_progress_and_done_are_passed_on(tmp_path: Path) -> None:
    text = """
import os, json, signal, sys, time
def say(**what):
    with open(os.environ['OPTSCHED_REPORTS'], 'a') as file:
        file.write(json.dumps(what) + '\\n')
def stop(*_):
    say(done=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
say(checkpoint='v1', step=10, tier='nvme', bytes=5, at=time.time() - 7)
say(step=11, step_s=0.5)
say(nonsense=1)
say(checkpoint='v2')
signal.pause()
"""

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            await s.run("train", 1, script(text))
            first, second = await s.until(lambda: len(c := s.bodies("checkpoint")) == 2 and c)
            assert (first.version, first.step, first.tier, first.bytes) == ("v1", 10, "nvme", 5)
            assert 7 <= first.age_s < 60
            assert (second.version, second.HasField("step")) == ("v2", False)
            (speed,) = await s.until(lambda: s.bodies("progress"))
            assert (speed.step, speed.step_s) == (11, 0.5)
            s.signal("train")
            # It says that its work is complete, so it counts as that, though it was told to stop.
            await s.report("train", 1, wire.OUTCOME_OK)

    run(story())


def test_a_log_is_read_and_followed(tmp_path: Path) -> None:
    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port):
            await s.connected()
            await s.run("train", 1, script("input_ = print('one', flush=True)\nimport signal; signal.pause()"))
            s.streams[-1].say(read_log=wire.ReadLog(request=7, job="train", run=1, follow=True))
            await s.until(lambda: b"".join(each.data for each in s.bodies("log")) == b"one\n")
            s.kill("train")
            await s.until(lambda: any(each.last for each in s.bodies("log")))
            s.streams[-1].say(read_log=wire.ReadLog(request=8, job="train", run=1, offset=2))
            chunks = await s.until(lambda: (c := [e for e in s.bodies("log") if e.request == 8]) and c[-1].last and c)
            assert b"".join(each.data for each in chunks) == b"e\n"
            s.streams[-1].say(read_log=wire.ReadLog(request=9, job="other", run=1))
            chunks = await s.until(lambda: [e for e in s.bodies("log") if e.request == 9])
            assert chunks[0].error
            assert chunks[0].last

    run(story())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_an_agent_that_is_root_runs_a_job_as_its_user(tmp_path: Path) -> None:
    """In a folder that everybody may pass through, as nobody; who has no account, and root, run nothing."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o711)
    text = "import os; print(os.getuid(), os.getgid()); " + REPORT.format(name="v")

    async def story() -> None:
        async with scheduler() as s, agent(folder / "a", s.port, run_as="submitter"):
            await s.connected()
            s.reserve("train")
            await s.report("train", 1, wire.OUTCOME_RESERVED)
            s.begin("train", 1, ["/usr/bin/env", "python3", "-c", text], user="nobody")
            await s.report("train", 1, wire.OUTCOME_OK)
            entry = pwd.getpwnam("nobody")
            assert log_of(folder / "a", "train") == f"{entry.pw_uid} {entry.pw_gid}\n"
            assert s.bodies("checkpoint")[0].version == "v"
            for job, user in (("other", "no-such-user"), ("bad", "root"), ("none", "")):
                s.reserve(job, 1, (1,))
                await s.report(job, 1, wire.OUTCOME_RESERVED)
                s.begin(job, 1, ["true"], user=user, tasks=[wire.Task(gpu_indices=[1], gpus=1)])
                await s.report(job, 1, wire.OUTCOME_FAILED)

    try:
        if not shutil.which("python3", path="/usr/bin:/bin"):
            text = ""
            pytest.skip("no Python that everybody may run")
        run(story())
    finally:
        shutil.rmtree(folder)


GROUPS = Path("/sys/fs/cgroup/unified" if Path("/sys/fs/cgroup/unified").is_dir() else "/sys/fs/cgroup")


@pytest.mark.skipif(
    not (GROUPS / "cgroup.procs").exists() or not os.access(GROUPS, os.W_OK),
    reason="no cgroup v2 that may be written to",
)
def test_where_the_kernel_lets_it_a_run_has_a_control_group_of_its_own(tmp_path: Path) -> None:
    """Its tasks are in it, and it is gone with the run."""
    node = f"test-{os.getpid()}"

    async def story() -> None:
        async with scheduler() as s, agent(tmp_path / "a", s.port, node=node, cgroup=str(GROUPS)):
            await s.connected()
            await s.run("train", 1, script("print(open('/proc/self/cgroup').read(), flush=True); " + HANG))
            await s.until(lambda: s.bodies("checkpoint"))
            assert f"/optsched-{node}/train.1\n" in log_of(tmp_path / "a", "train")
            assert (GROUPS / f"optsched-{node}" / "train.1").is_dir()
            s.kill("train")
            await s.report("train", 1, wire.OUTCOME_RELEASED)
            # Once that is acknowledged the run is cleared away; what is asked next is done after that.
            s.reserve("next")
            await s.report("next", 1, wire.OUTCOME_RESERVED)
            assert not (GROUPS / f"optsched-{node}" / "train.1").exists()

    try:
        run(story())
    finally:
        (GROUPS / f"optsched-{node}").rmdir()


HANG = REPORT.format(name="ready") + "; import signal; signal.pause()"


def test_signals_have_names_that_people_know() -> None:
    from optsched.agent.exits import name_of

    assert name_of(signal.SIGKILL) == "SIGKILL"
    assert name_of(200) == "signal 200"

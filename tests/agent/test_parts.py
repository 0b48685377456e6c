"""The parts of the shell, each by itself: waits, ports, reports, probes, limits, settings, the folder on disk."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from optsched.agent import allreduce
from optsched.agent.environment import environment_of
from optsched.agent.housekeeping import forget_old_logs
from optsched.agent.limits import Cgroups, NoLimits, limits, own_group
from optsched.agent.link import wait_s
from optsched.agent.messages import Checkpoint
from optsched.agent.ports import Ports
from optsched.agent.probing import command_of, probe
from optsched.agent.reports import Speed, read_reports
from optsched.agent.settings import PREFIX, Settings, pairs
from optsched.agent.statefile import StateFolder, file_name
from optsched.agent.values import Key, Outcome, Phase, Probed, Run, Said, Saved, StartSpec, State, Task
from optsched.errors import InputError, StoreDamaged, StoreInUse, UsageError
from optsched.files.settings import load

J = Key("team/job:1", 2)


def spec(tasks: tuple[Task, ...], **environment: str) -> StartSpec:
    return StartSpec(("x",), environment, "", "ada", "vision", tasks, 4, 2, 1, 8, "head", 29500)


# Waits


def test_waits_grow_from_half_a_second_to_fifteen_with_chance_in_them() -> None:
    draw = np.random.default_rng(0)
    for failures, longest in ((1, 0.5), (2, 1.0), (8, 1.0), (9, 2.0), (11, 8.0), (12, 15.0), (1000, 15.0)):
        waits = [wait_s(failures, draw) for _ in range(50)]
        assert all(longest / 2 <= each <= longest for each in waits)
        assert len(set(waits)) == 50
    assert wait_s(3, np.random.default_rng(7)) == wait_s(3, np.random.default_rng(7))


# Ports


def test_a_port_is_kept_until_it_is_let_go_and_given_to_one_run_only() -> None:
    draw = np.random.default_rng(os.getpid())
    first, second = Ports(20000, 29999, draw), Ports(20000, 29999, draw)
    port = first.hold(J, ())
    assert first.hold(J, ()) == port
    assert second.hold(J, (), wanted=port) == 0, "it is in use"
    assert second.hold(J, {port}) not in (0, port)
    first.free(J)
    second.free(J)
    assert second.hold(J, (), wanted=port) == port
    second.close()
    assert Ports(port, port, draw).hold(J, {port}) == 0


# The environment


def test_a_task_that_is_alone_on_its_node_is_set_up_for_torchrun() -> None:
    (task,) = tasks = (Task(1, 0, (4, 5, 6, 7), 4),)
    found = environment_of(J, spec(tasks), task, "n1", "/reports", {"PATH": "/bin", "SECRET": "1"})
    assert found["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert (found["PET_NNODES"], found["PET_NODE_RANK"], found["PET_NPROC_PER_NODE"]) == ("2", "1", "4")
    assert (found["PET_MASTER_ADDR"], found["PET_MASTER_PORT"]) == ("head", "29500")
    assert found["PATH"] == "/bin"
    assert "SECRET" not in found


def test_what_tasks_see_can_be_chosen() -> None:
    tasks = (Task(0, 0, (2,), 1), Task(1, 1, (5,), 1))
    shown = {
        wish: environment_of(J, spec(tasks, OPTSCHED_VISIBLE_GPUS=wish), tasks[1], "n1", "", {})["CUDA_VISIBLE_DEVICES"]
        for wish in ("", "task", "node")
    }
    assert shown == {"": "2,5", "task": "5", "node": "2,5"}
    pair = (Task(0, 0, (0, 1), 2), Task(1, 1, (2, 3), 2))
    assert environment_of(J, spec(pair), pair[1], "n1", "", {})["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_job_cannot_set_what_places_it_in_its_gang() -> None:
    (task,) = tasks = (Task(1, 0, (0,), 1),)
    assert environment_of(J, spec(tasks, RANK="9", MINE="1"), task, "n1", "", {})["RANK"] == "1"


# Reports


def test_reports_are_read_by_whole_lines_and_what_is_none_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    assert read_reports(path, 0, 100.0) is None
    lines = [
        '{"checkpoint": "v1", "step": 3, "at": 90.5}',
        "not json",
        '{"checkpoint": 7}',
        '{"checkpoint": "\\ud800"}',
        '{"checkpoint": "a\\u0000b"}',
        '{"checkpoint": "v", "tier": "\\udfff"}',
        '{"checkpoint": "v", "step": 1e999}',
        "[" * 4000,
        '{"checkpoint": "v2", "at": 200}',
        '{"step": 4, "step_s": 0.25}',
        '{"step": -1, "step_s": 0.25}',
        '{"checkpoint": "' + "x" * 5000 + '"}',
        '{"done": true}',
    ]
    path.write_text("\n".join(lines) + '\n{"checkpoint": "half')
    found = read_reports(path, 0, 100.0)
    assert found is not None
    assert found.checkpoints == (Checkpoint("v1", 90.5, step=3), Checkpoint("v2", 100.0)), "one of the future is of now"
    assert (found.speed, found.done) == (Speed(4, 0.25), True)
    assert read_reports(path, found.read, 100.0) is None
    with path.open("a") as file:
        file.write('"}\n')
    later = read_reports(path, found.read, 100.0)
    assert later is not None
    assert later.checkpoints == (Checkpoint("half", 100.0),)


# Probes


def test_the_shipped_probe_passes_here_and_says_what_it_found() -> None:
    ok, found = asyncio.run(probe(command_of("shipped"), (), 60.0))
    assert ok, found
    assert "2 processes" in found


def test_a_ring_finds_a_wrong_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that brings a wrong number spoils the sum on every process of three."""
    right = allreduce.share

    def wrong(rank: int, count: int) -> allreduce.Array:
        mine = right(rank, count)
        if rank == 1:
            mine[5] += 1
        return mine

    assert allreduce.over_sockets(3, 1000)[0] == 0
    monkeypatch.setattr(allreduce, "share", wrong)
    assert allreduce.over_sockets(3, 1000)[0] == 3


def test_a_probe_that_is_too_slow_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert allreduce.main(["--mib", "0.1", "--least-gb-s", "1e9"]) == 1
    assert "is the least" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "ok", "why"),
    [
        ("none", True, "no probe is set"),
        ("sh -c 'echo first; echo $OPTSCHED_PROBE_GPUS'", True, "1,2"),
        ("sh -c 'echo NCCL at 3 GB/s; exit 1'", False, "NCCL at 3 GB/s"),
        ("sh -c 'exit 4'", False, "exited with 4"),
        ("no-such-probe", False, "cannot be run"),
    ],
)
def test_a_probe_is_a_command_whose_last_line_is_the_reason(command: str, ok: bool, why: str) -> None:
    passed, found = asyncio.run(probe(command_of(command), (1, 2), 60.0))
    assert passed is ok
    assert why in found


def test_a_probe_that_hangs_is_ended_with_all_that_it_started() -> None:
    ok, why = asyncio.run(probe([sys.executable, "-c", "import time; time.sleep(1000)"], (), 0.2))
    assert (ok, why) == (False, "the probe took longer than 0.2 s")


# Limits


def test_limits_are_written_where_the_kernel_reads_them(tmp_path: Path) -> None:
    groups = Cgroups(tmp_path, "n1")
    path = Path(groups.make(J, 2.5, 64.0))
    assert (path / "cpu.max").read_text() == "250000 100000"
    assert (path / "memory.max").read_text() == "64000000000"
    assert (path / "memory.oom.group").read_text() == "1"
    assert path.parent.name == "optsched-n1"
    for file in path.iterdir():
        file.unlink()
    groups.remove(J)
    assert not path.exists()


def test_without_control_groups_there_are_no_limits(tmp_path: Path) -> None:
    assert isinstance(limits("off", "n1"), NoLimits)
    assert isinstance(limits(str(tmp_path / "no" / "group"), "n1"), NoLimits)
    assert NoLimits().make(J, 1, 1) == ""


def test_the_agents_own_group_is_found(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    (tmp_path / "cgroup").write_text("0::/system.slice/optsched.service\n")
    found = own_group(str(tmp_path / "mounts"), str(tmp_path / "cgroup"))
    assert found == Path("/sys/fs/cgroup/system.slice/optsched.service")
    (tmp_path / "mounts").write_text("")
    assert own_group(str(tmp_path / "mounts"), str(tmp_path / "cgroup")) is None


# The folder


def whole_state() -> State:
    start = spec((Task(0, 0, (1,), 1, (2, 3)),), A="b")
    runs = {J: Run(J, Phase.STOPPING, (1,), 20001, start, 12.5, 77, True)}
    said = Said(3, J, Outcome.FAILED, 1.5, "why", 3, None, 0, 20001)
    outbox = (said, Saved(4, J, "v", 2.5, "nvme", 9, None), Probed(5, 6, False, "bad"))
    return State(4, 9, runs, {"team/job:1": 2}, outbox, 6, frozenset({2}))


def test_a_state_comes_back_as_it_was_and_each_start_has_a_larger_number(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "a")
    assert folder.open(4, 1000.0) == State(4)
    assert folder.session == 1_000_000
    folder.save(whole_state())
    folder.close()
    again = StateFolder(tmp_path / "a")
    assert again.open(4, 10.0) == whole_state()
    assert again.session == 1_000_001, "also where the clock was set back"
    with pytest.raises(StoreInUse, match="another agent works in this folder"):
        StateFolder(tmp_path / "a").open(4, 0.0)
    again.close()


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "session": "x"}', "[1]"])
def test_a_state_that_is_damaged_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(StoreDamaged, match=r"state\.json"):
        StateFolder(tmp_path).open(4, 0.0)
    assert (tmp_path / "state.json").read_text() == text


def test_names_of_jobs_become_names_of_files() -> None:
    folder = StateFolder(Path("/s"))
    assert folder.run_folder(J) == Path("/s/runs/team%2Fjob%3A1/2")
    assert folder.log_file(J, 7, "err") == Path("/s/logs/team%2Fjob%3A1/2/rank-7.err")


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "a/../b", "x" * 253, "/" * 253, "é" * 100])
def test_any_name_is_one_of_a_file(name: str, tmp_path: Path) -> None:
    found = file_name(name)
    (tmp_path / found).mkdir()
    assert [each.name for each in tmp_path.iterdir()] == [found]
    assert file_name(name + "1") != found


def test_old_logs_go_and_those_of_runs_that_are_there_stay(tmp_path: Path) -> None:
    for job in ("old", "kept", "new"):
        (tmp_path / job / "1").mkdir(parents=True)
        file = tmp_path / job / "1" / "rank-0.out"
        file.write_text("x")
        if job != "new":
            for path in (file, file.parent):
                os.utime(path, (100, 100))
    assert forget_old_logs(tmp_path, {tmp_path / "kept" / "1"}, 1000.0) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept", "new"]


# Settings


def test_a_setting_comes_from_its_flag_else_the_environment_else_the_file(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("node: from-file\ngpus: 2\nspare: true\n")
    variables = {PREFIX + "NODE": "from-variable", PREFIX + "GPUS": "4"}
    found = load(Settings, PREFIX, {"gpus": "8"}, variables, str(config))
    assert (found.name, found.gpus, found.spare) == ("from-variable", 8, True)
    assert found.port_range == (20000, 29999)


def test_what_is_wrong_with_settings_is_told_in_a_line_each() -> None:
    flags = {"gpus": "many", "scheduler": "nowhere", "ports": "5", "domains": "rack"}
    with pytest.raises(InputError) as caught:
        load(Settings, PREFIX, flags, {PREFIX + "LOG_LEVEL": "loud"}, None)
    lines = [str(fault) for fault in caught.value.faults]
    assert len(lines) == 5
    for name in ("--gpus", "--scheduler", "--ports", "--domains", PREFIX + "LOG_LEVEL"):
        assert any(name in line and "allowed:" in line for line in lines), lines
    assert any("host:port" in line for line in lines)


@pytest.mark.parametrize("ports", ["0-5", "9-8", "1-65536"])
def test_ports_are_two_that_there_are(ports: str) -> None:
    with pytest.raises(UsageError, match="ports: given"):
        _ = Settings(ports=ports).port_range


def test_pairs_are_read() -> None:
    assert pairs("block=b1,rack=b1/r7") == {"block": "b1", "rack": "b1/r7"}
    assert pairs("") == {}

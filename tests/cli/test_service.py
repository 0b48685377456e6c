"""The commands that ask a running service, each against a real one with a real agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from optsched.cli.main import main
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState
from tests.agent.agents import script
from tests.server.test_access import TOKENS, Role, write_tokens
from tests.server.threaded import Threaded, threaded

RACKS = str(Path(__file__).parents[1] / "server" / "data" / "racks.yaml")
SLEEP = ["--", "sleep", "1000"]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Said]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    with threaded(tmp_path_factory.mktemp("here"), "n1", "n2") as made:
        yield made


@pytest.fixture
def run(
    here: Threaded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Run]:
    """Runs a command; at the end of the test no job is left in the queue or at work."""
    monkeypatch.setenv("OPTSCHED_CLIENT_SCHEDULER", here.address)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)

    # One service for all tests: ids are not used again.
    def command(*words: str) -> Said:
        code = main(words)
        return Said(code, *capsys.readouterr())

    yield command
    with here.client() as client:
        for job in client.jobs():
            if job.id in here.it.state.jobs:
                client.cancel(job.id)
    here.do(lambda it: it.until(lambda state: not any(node.bookings for node in state.nodes.values())))


def running(here: Threaded, job: str) -> None:
    here.do(lambda it: it.job_is(job, JobState.RUNNING))


# Submitting


def test_submit_prints_the_id_alone_so_that_it_can_be_piped(run: Run) -> None:
    said = run("submit", "--gpus", "1", "--name", "one", "--priority", "P1", *SLEEP)
    assert said == Said(0, "one\n", "")
    made = run("submit", "--gpus", "1", *SLEEP)
    assert re.fullmatch(r"job-\S+\n", made.out)
    said = run("submit", "--gpus", "900", "--name", "big")
    assert said.out == "big\n"
    assert said.err.startswith("warning: job big can never start as things stand")
    said = run("submit", "--gpus", "900", "--name", "two", "--format", "json")
    assert said.json["job_ids"] == ["two"]


def test_flags_say_all_that_a_job_may_ask_for(run: Run) -> None:
    words = (
        "--name full --team default --user ada --priority 7 --gpus 4 --gpus-per-task 2 --min-gpus 2 --max-gpus 4 "
        "--gpu-type h100 --gpu-type a100 --cpus 8.5 --memory-gb 64 --select zone=a --exclude n9 --runtime 90m "
        "--deadline 2099-01-01T00:00:00Z --grace 30s --checkpoint-every 15m --env A=1 --env B=x=y --workdir /tmp "
        "--saves-on-signal --hold --after first"
    )
    run("submit", "--gpus", "900", "--name", "first")
    assert run("submit", *words.split(), "--", "python", "train.py", "--lr", "1e-3").code == 0
    spec = run("job", "full", "--format", "json").json["spec"]
    assert isinstance(spec, dict)
    wanted = {
        "user": "ada",
        "priority": 7,
        "gpus": 4,
        "gpus_per_task": 2,
        "min_gpus": 2,
        "gpu_types": {"h100": 1.0, "a100": 1.0},
        "cpus": 8.5,
        "memory_gb": 64.0,
        "node_selector": {"zone": "a"},
        "estimated_runtime_s": 5400.0,
        "start_deadline_at": 4070908800.0,
        "grace_period_s": 30.0,
        "environment": {"A": "1", "B": "x=y"},
        "working_directory": "/tmp",
        "command": ["python", "train.py", "--lr", "1e-3"],
        "after": [{"job": "first", "condition": "completed"}],
    }
    assert {key: spec.get(key) for key in wanted} == wanted
    checkpoint = spec["checkpoint"]
    assert isinstance(checkpoint, dict)
    assert (checkpoint["interval_s"], checkpoint["on_signal"]) == (900.0, True)


def test_a_file_says_it_too_and_flags_win(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "id: mine\ngpus: 900\nuser: bob\npriority: P2\nenvironment: {A: '1', B: '2'}\n"
        "start_deadline_at: '2099-01-01T00:00:00Z'\ncommand: [sleep, '5']\n"
    )
    assert run("submit", "-f", str(file), "--priority", "P1", "--env", "B=3").out == "mine\n"
    spec = run("job", "mine", "--format", "json").json["spec"]
    assert isinstance(spec, dict)
    assert (spec["priority"], spec["user"], spec["environment"]) == ("P1", "bob", {"A": "1", "B": "3"})
    assert spec["start_deadline_at"] == 4070908800.0
    many = tmp_path / "many.yaml"
    many.write_text("jobs:\n  - {id: x, gpus: 900}\n  - {id: y, gpus: 900}\n")
    assert run("submit", "-f", str(many)).out == "x\ny\n"
    assert run("submit", "-f", str(file), "--name", "arr", "--array", "3", "--max-running", "1").out == (
        "arr.0\narr.1\narr.2\n"
    )


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("", ["command line: --gpus: is missing; allowed: --gpus N, or --file FILE"]),
        ("--gpus 0", ["--gpus: given '0'; allowed: a whole number from 1 to 1,000,000"]),
        ("--gpus 1 --runtime soon", ["--runtime: given 'soon'; allowed: a duration above 0, such as 90, 90s, 15m"]),
        ("--gpus 1 --deadline tomorrow", ["--deadline: given 'tomorrow'; allowed: RFC 3339"]),
        ("--gpus 1 --env A", ["--env: given 'A'; allowed: NAME=VALUE"]),
        ("--gpus 1 --attach --wait", ["submit: --attach is given with --wait or --array; allowed: alone"]),
        ("--gpus 1 --max-running 2", ["submit: --max-running is given without --array"]),
        (
            "--gpus 5 --gpus-per-node 2 --priority PX",
            [
                "command line: --gpus: 5 is not a multiple of gpus_per_node 2; allowed: a multiple of 2",
                "command line: --priority: unknown priority class 'PX'; allowed: known classes: P0,",
            ],
        ),
        ("--gpus 1 --hint rakc", ["command line: --hint: unknown hint 'rakc'"]),
    ],
)
def test_what_is_wrong_with_flags_is_told_by_flag(run: Run, words: str, lines: list[str]) -> None:
    said = run("submit", *words.split())
    assert (said.code, said.out) == (2, "")
    for line in lines:
        assert line in said.err


def test_what_is_wrong_with_a_file_is_told_by_line_whoever_found_it(run: Run, tmp_path: Path) -> None:
    """The first two are found before anything is sent, the others by the service."""
    file = tmp_path / "job.yaml"
    file.write_text("gpus: many\nchekpoint: {}\n")
    said = run("submit", "-f", "job.yaml")
    assert said.code == 2
    assert said.err.startswith("job.yaml:1: gpus: given 'many'; allowed: a whole number")
    assert "job.yaml:2: chekpoint: unknown key 'chekpoint'; allowed: did you mean 'checkpoint'?" in said.err
    file.write_text("gpus: 5\ngpus_per_node: 2\ntopology:\n  required: rakc\n")
    said = run("submit", "-f", "job.yaml", "--team", "nobody")
    assert "job.yaml:1: gpus: 5 is not a multiple of gpus_per_node 2" in said.err
    assert "job.yaml:4: topology.required: unknown level 'rakc'" in said.err
    assert "command line: --team: unknown team 'nobody'" in said.err
    file.write_text("jobs:\n  - {id: a, gpus: 1}\n  - {id: b, gpus: 1, priority: PX}\n")
    assert run("submit", "-f", "job.yaml").err.startswith("job.yaml:3: jobs[1] (b).priority: unknown priority class")
    file.write_text("jobs: []\n")
    assert "jobs: is no list of jobs; allowed: a list of 1 to 1,000 jobs" in run("submit", "-f", "job.yaml").err
    assert run("jobs", "--all", "--ids", "--user", "nobody").out == ""


def test_waiting_ends_with_how_the_job_ended(run: Run) -> None:
    assert run("submit", "--gpus", "1", "--wait", "--", *script("pass")).code == 0
    file = ["--gpus", "1", "--name", "bad", "--retries", "0"]
    said = run("submit", *file, "--wait", "--", "sh", "-c", "exit 4")
    assert said.code == 3
    assert said.out == "bad\n"
    assert said.err.startswith("bad: failed: ")
    assert run("job", "bad", "--wait").code == 3
    assert run("job", "bad").code == 0
    assert run("job", "bad", "--wait-running").code == 3


# Looking


def test_jobs_are_listed_filtered_and_paged(run: Run, here: Threaded) -> None:
    for number in range(3):
        run("submit", "--gpus", "900", "--name", f"q{number}", "--user", "ada")
    run("submit", "--gpus", "2", "--name", "r", "--user", "bob", "--priority", "P1", *SLEEP)
    running(here, "r")
    said = run("jobs")
    head, *rows = said.out.splitlines()
    assert head.split() == ["job", "team", "user", "prio", "GPUs", "state", "age", "where", "or", "why"]
    assert [row.split()[0] for row in rows] == ["q0", "q1", "q2", "r"]
    assert rows[3].split()[:6] == ["r", "default", "bob", "P1", "2", "running"]
    assert re.search(r"n[12] × 2$", rows[3])
    assert run("jobs", "--state", "queued", "--user", "ada", "--ids").out == "q0\nq1\nq2\n"
    assert run("jobs", "--node", "n1", "--node", "n2", "--ids").out in ("r\n", "")
    first = run("jobs", "--limit", "3", "--ids")
    match = re.fullmatch(r"3 of 4 jobs; more: --page-token (\S+)\n", first.err)
    assert match is not None
    assert run("jobs", "--limit", "3", "--ids", "--page-token", match[1]) == Said(0, "r\n", "")
    page = run("jobs", "--limit", "1", "--format", "json").json
    assert page["total"] == 4
    assert page["next_page_token"]
    assert run("jobs", "--user", "nobody") == Said(0, "", "no jobs\n")
    assert run("jobs", "--page-token", "zz").code == 2


def test_one_job_is_shown_with_what_has_happened_to_it(run: Run, here: Threaded) -> None:
    run("submit", "--gpus", "2", "--name", "shown", "--user", "bob", *SLEEP)
    running(here, "shown")
    said = run("job", "shown", "--events")
    assert said.out.startswith("shown · running · 2 GPUs · team default · user bob · priority 0\n")
    assert "command     sleep 1000" in said.out
    assert re.search(r"submitted +submitted by team default: 2 GPUs", said.out)
    found = run("job", "shown", "--events", "--format", "json").json
    assert found["preemptions"] == 0, "what is 0 is told too"
    events = found["events"]
    assert isinstance(events, list)
    assert events[0]["kind"] == "submitted"
    assert run("job", "none") == Said(2, "", "optsched: no job is called none\n")


def test_logs_are_printed_as_they_are(run: Run, here: Threaded) -> None:
    run("submit", "--gpus", "1", "--name", "talk", "--wait", "--", "sh", "-c", "echo one; echo two; echo oh >&2")
    assert run("logs", "talk") == Said(0, "one\ntwo\n", "")
    assert run("logs", "talk", "--follow", "--run", "1").out == "one\ntwo\n"
    assert run("logs", "talk", "--tail", "4").out == "two\n"
    assert run("logs", "talk", "--stderr").out == "oh\n"
    assert run("logs", "talk", "--format", "json").json == {"text": "one\ntwo\n"}
    said = run("logs", "talk", "--rank", "3")
    assert said.code == 2
    assert "rank: given 3; allowed: 0: it has one task" in said.err
    run("submit", "--gpus", "900", "--name", "bulky")
    assert run("logs", "bulky") == Said(1, "", "optsched: job bulky was not started yet: it has written nothing\n")


def test_logs_of_a_job_that_waits_are_followed_once_it_has_started(run: Run, here: Threaded) -> None:
    run("submit", "--gpus", "1", "--name", "later", "--hold", "--", "echo", "here")

    def released() -> None:
        with here.client() as client:
            client.release("later")

    import threading

    timer = threading.Timer(0.3, released)
    timer.start()
    said = run("logs", "later", "--follow")
    timer.join()
    assert said.out == "here\n"
    assert said.err.startswith("later has not started: ")


def test_a_job_is_explained_by_the_service_or_from_a_file(run: Run, here: Threaded, tmp_path: Path) -> None:
    run("submit", "--gpus", "900", "--name", "wide")
    said = run("explain", "wide")
    assert said.out.startswith("wide · team default · priority 0 · 900 GPUs · queued for ")
    assert "\nWaits: " in said.out
    answer = run("explain", "wide", "--format", "json", "--budget", "1").json
    assert isinstance(answer["waits"], dict)
    run("submit", "--gpus", "1", "--name", "runs", *SLEEP)
    running(here, "runs")
    assert re.search(r"\nRuns on: n[12] × 1\n", run("explain", "runs").out)
    assert run("explain", "none") == Said(2, "", "optsched: no job is called none\n")
    said = run("explain", "wide", "--solver", "greedy")
    assert said.err == "optsched: explain: --solver is for a snapshot; allowed for a job of the service: --budget\n"
    file = tmp_path / "one.yaml"
    file.write_text("cluster: {nodes: [{id: a, gpus: 8}]}\nteams: [{id: t}]\njobs: [{id: j, team: t, gpus: 8}]\n")
    assert run("explain", str(file), "j").out.startswith("j · team t")
    said = run("explain", str(file), "j", "--timeout-s", "3")
    assert said.code == 2
    assert "--timeout-s is for a job of the service" in said.err


def test_jobs_that_are_named_are_watched_until_they_have_ended(run: Run) -> None:
    run("submit", "--gpus", "1", "--name", "short", "--", "true")
    lines = run("watch", "short").out.splitlines()
    assert re.fullmatch(r"\d\d-\d\d \d\d:\d\d:\d\d  short  completed  .*", lines[-1])
    rows = [json.loads(line) for line in run("watch", "short", "--format", "json").out.splitlines()]
    assert rows[0]["job"]["state"] == "completed"
    assert run("watch", "none").code == 2


# Changing


def test_jobs_are_stopped_held_released_and_withdrawn(run: Run, here: Threaded) -> None:
    run("submit", "--gpus", "1", "--name", "halts", *SLEEP)
    running(here, "halts")
    said = run("preempt", "halts", "--reason", "making room")
    assert said.out == "halts\n"
    assert re.fullmatch(r"halts: told to stop; it is preempting; killed in .* if it is still there\n", said.err)
    here.do(lambda it: it.until(lambda state: state.jobs[JobId("halts")].state is JobState.QUEUED))
    assert run("hold", "halts").err == "halts: held; it is queued\n"
    assert run("job", "halts", "--format", "json").json["held"]
    assert run("release", "halts").err == "halts: released; it is queued\n"
    said = run("preempt", "halts", "none")
    assert said.code == 2, "the gravest of two"
    assert len(said.err.splitlines()) == 2
    run("submit", "--gpus", "900", "--name", "fills")
    assert run("cancel", "halts", "fills", "--reason", "enough").out == "halts\nfills\n"
    assert "enough" in run("job", "fills", "--events").out
    said = run("hold", "fills", "--format", "json")
    assert (said.code, said.out) == (1, "")


def test_nodes_are_listed_closed_emptied_and_opened(run: Run, here: Threaded) -> None:
    said = run("nodes")
    assert [line.split()[:5] for line in said.out.splitlines()[1:]] == [
        ["n1", "up", "4", "4", "connected"],
        ["n2", "up", "4", "4", "connected"],
    ]
    assert run("nodes", "--ids", "--limit", "1").out == "n1\n"
    assert run("cordon", "n1", "--reason", "fan").err == "n1: it is cordoned\n"
    assert run("drain", "n2", "--format", "json").json["node"]["state"] == "draining"  # type: ignore[index]
    assert run("nodes", "--state", "cordoned", "--ids").out == "n1\n"
    assert "fan" in run("nodes", "n1").out
    said = run("uncordon", "n1", "n9", "n2")
    assert (said.code, said.out) == (2, "n1\nn2\n")
    assert "no node is called n9" in said.err
    here.do(lambda it: it.until(lambda state: all(each.node.state.value == "up" for each in state.nodes.values())))
    assert run("fence", "n9").code == 2
    assert run("status").out.splitlines()[1] == "nodes  2 nodes, 2 with an agent"
    assert run("status", "--format", "json").json["gpus"] == 8
    assert NodeId("n1") in here.it.state.nodes


def test_a_team_is_changed_where_it_is_named_and_stays_as_it_is_elsewhere(run: Run, tmp_path: Path) -> None:
    assert run("teams", "set", "ml", "--quota", "4", "--weight", "2.5", "--max-priority", "P1").out == "ml\n"
    assert run("teams", "set", "ml", "--limit", "h100=4,a100=2").code == 0
    rows = run("teams", "--format", "json").json["teams"]
    assert isinstance(rows, list)
    team = next(row["team"] for row in rows if row["team"]["id"] == "ml")
    assert team["quota"] == {"gpus": 4}
    assert team["limit"] == {"gpus": {"h100": 4, "a100": 2}}
    assert (team["weight"], team["max_priority"]) == (2.5, "P1")
    assert run("teams", "set", "ml", "--limit", "none", "--max-priority", "none").code == 0
    line = next(line for line in run("teams").out.splitlines() if line.startswith("ml"))
    assert line.split() == ["ml", "2.5", "4", "-", "0", "0", "0", "0", "%"]
    said = run("teams", "set", "ml", "--quota", "9000")
    assert said.out == "ml\n"
    assert said.err.startswith("warning: the quotas add up to 9000 GPUs")
    file = tmp_path / "teams.yaml"
    file.write_text("teams:\n  - {id: ml}\n  - {id: vision, parent: ml, quota: {gpus: 2}}\n")
    assert run("teams", "set", "--file", "teams.yaml").out == "ml\nvision\n"
    file.write_text("teams:\n  - {id: ml, wieght: 2}\n")
    assert run("teams", "set", "--file", "teams.yaml").err.startswith("teams.yaml:2: teams[0] (ml).wieght: unknown key")
    file.write_text("- {id: ml}\n")
    assert (
        "is no list of teams; allowed: a mapping with the one key teams" in run("teams", "set", "-f", "teams.yaml").err
    )
    assert run("teams", "set").code == 2
    assert run("teams", "set", "ml", "--quota", "some").code == 2
    assert run("teams", "set", "-f", "teams.yaml", "--quota", "1").code == 2
    assert "parent" in run("teams", "set", "ml", "--parent", "nobody").err


def test_windows_and_grants_are_set_listed_and_withdrawn(run: Run) -> None:
    assert run("reserve") == Said(0, "", "no reservations\n")
    window = ["--nodes", "n1,n2", "--start", "2099-01-01T00:00:00Z", "--for", "4h"]
    assert run("reserve", "firmware", *window).out == "firmware\n"
    assert run("reserve", "paper", "--gpus", "4", "--team", "default", "--for", "2d").out == "paper\n"
    rows = [line.split() for line in run("reserve").out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["firmware", "maintenance"], ["paper", "grant"]]
    assert rows[0][-3:] == ["n1", "and", "n2"]
    assert rows[1][-4:] == ["4", "GPUs", "for", "default"]
    found = run("reserve", "--format", "json").json["reservations"]
    assert isinstance(found, list)
    assert found[0]["end_at"] - found[0]["start_at"] == 4 * 3600
    for words in (
        ["--nodes", "n1"],
        ["x", "--for", "4h"],
        ["x", "--nodes", "n1"],
        ["x", "--nodes", "n1", "--gpus", "4", "--for", "4h"],
        ["x", "--drop", "--nodes", "n1"],
        ["x", "--nodes", "n9", "--for", "4h"],
    ):
        said = run("reserve", *words)
        assert (said.code, said.out) == (2, ""), words
        assert "allowed: " in said.err
    assert run("reserve", "firmware", "--drop").out == "firmware\n"
    assert run("reserve", "paper", "--drop", "--format", "json").code == 0
    assert run("reserve", "paper", "--drop").code == 2


def test_rounds_are_listed_and_told(run: Run, here: Threaded) -> None:
    run("submit", "--gpus", "1", "--name", "placed", *SLEEP)
    running(here, "placed")
    listed = run("rounds", "--format", "json").json["rounds"]
    assert isinstance(listed, list)
    assert "plan of" in run("rounds").out
    told = [run("rounds", str(row["id"])).out for row in listed[:5]]
    assert any(re.search(r"  starts +placed: n[12] × 1", text) for text in told)
    assert run("rounds", "999999").code == 2
    assert run("rounds", "--limit", "1").err.startswith("more: --page-token ")


# What does not go


def test_nobody_there_is_one_line(run: Run) -> None:
    said = run("jobs", "--scheduler", "127.0.0.1:9", "--patience-s", "0")
    assert said == Said(1, "", "optsched: no scheduler answers at 127.0.0.1:9: Connection refused\n")
    assert (
        run("jobs", "--token-file", "none.token").err
        == "optsched: none.token cannot be read: No such file or directory\n"
    )
    assert run("jobs", "--config", "none.yaml").code == 2


def test_a_file_without_certificates_is_named_with_its_option(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("name: lab\n")
    told = f"optsched: tls_ca: {path} holds no certificate; allowed: a PEM file with those to trust\n"
    for command in (("jobs",), ("cancel", "a"), ("nodes",), ("submit", "--gpus", "1", "--team", "a")):
        assert run(*command, "--tls-ca", str(path)) == Said(2, "", told)


def test_who_may_not_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = str(Path(RACKS).with_name("small.yaml"))
    with threaded(tmp_path, start=small, tokens=write_tokens(tmp_path)) as made:
        monkeypatch.setenv("OPTSCHED_CLIENT_SCHEDULER", made.address)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert main(["jobs"]) == 1
        assert capsys.readouterr().err == "optsched: a token is needed: authorization: Bearer TOKEN\n"
        monkeypatch.setenv("OPTSCHED_CLIENT_TOKEN", TOKENS[Role.SUBMITTER])
        assert main(["jobs"]) == 0
        assert main(["drain", "a"]) == 1
        assert "optsched: Cluster.DrainNode is for operator; ada is submitter\n" in capsys.readouterr().err
        assert main(["submit", "--gpus", "1", "--team", "vision"]) == 1
        assert "is of another team: the token of ada is for t" in capsys.readouterr().err

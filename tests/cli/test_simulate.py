"""optsched simulate: a small trace on a small cluster, from the arguments to what is printed."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from optsched.cli.main import main
from optsched.errors import InputError
from optsched.sim.results import Timing, from_json, to_json

CLUSTER = """
name: two-racks
levels: [rack]
groups:
  - {prefix: "n-", counts: {rack: 2, node: 2}, gpus: 4, gpu_type: h100}
"""

TRACE = "job_id,submit_s,duration_s,gpus,status,team\n" + "".join(
    f"j{i},{i * 300},{600 + 400 * (i % 7)},{(1, 2, 4, 8)[i % 4]},completed,{'ab'[i % 2]}\n" for i in range(24)
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trace and a cluster, in which commands run."""
    (tmp_path / "small.yaml").write_text(CLUSTER)
    (tmp_path / "trace.csv").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulated(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    """Simulate; the exit code, standard output, standard error."""
    code = main(["simulate", "trace.csv", "--cluster", "small.yaml", *options])
    found = capsys.readouterr()
    return code, found.out, found.err


def result(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The JSON of a simulation, without what real time is told in it."""
    code, out, err = simulated(capsys, "--format", "json", *options)
    assert code == 0, err
    found = from_json(out, "result")
    return to_json(replace(found, results=tuple(replace(each, timing=Timing()) for each in found.results)))


def test_policies_stand_side_by_side(files, capsys):
    """Text names every policy, the figures and every group of jobs, and fits the width."""
    code, out, err = simulated(capsys, "--policy", "greedy,fifo-best-fit", "--checked")
    assert code == 0, err
    assert "trace on two-racks  24 jobs · 16 GPUs · failures: llama3 · seed 0" in out
    for line in ("utilisation", "goodput", "wait, p99", "preemptions", "share error", "fragmentation"):
        assert line in out
    assert out.count("fifo-best-fit") == 2
    assert max(map(len, out.splitlines())) <= 120


def test_without_a_policy_it_is_the_quick_one(files, capsys):
    """Greedy decides, and no round searches."""
    (found,) = from_json(result(capsys), "result").results
    assert found.policy == "greedy"
    assert set(found.metrics.rounds.sources) == {"greedy"}


def test_the_json_has_everything_that_a_page_is_drawn_from(files, capsys):
    """Series of one length, maps of all nodes, gangs with their runs; read back it is the same."""
    text = result(capsys, "--policy", "greedy", "--sample", "10m", "--map-at", "1h", "--map-at", "2h", "--gantt", "8")
    (found,) = from_json(text, "result").results
    samples = found.series
    lengths = {len(each) for each in (*samples.places.values(), *samples.tiers.values(), samples.share_error)}
    assert lengths == {len(samples.at_s)}
    assert [each.at_s for each in found.maps] == [3600.0, 7200.0]
    assert all(len(each.booked) == len(found.nodes) == 4 for each in found.maps)
    assert [gang.gpus for gang in found.gangs] == [8] * 6
    assert all(run.where and run.end_s >= run.start_s for gang in found.gangs for run in gang.runs)
    assert found.metrics.gpu_time.accounted == found.metrics.gpu_time.capacity == 16 * round(found.end_s * 1000)
    assert to_json(from_json(text, "result")) == text


def test_processes_change_nothing(files, capsys):
    """Side by side over two processes the policies come to what they do one after the other."""
    options = ("--policy", "greedy,easy-backfill", "--seed", "3")
    assert result(capsys, *options, "--jobs", "2") == result(capsys, *options)


def test_saved_and_resumed_it_comes_to_the_same(files, capsys):
    """Saved after an hour and resumed, as if nothing had been."""
    whole = result(capsys, "--policy", "greedy")
    assert simulated(capsys, "--policy", "greedy", "--until", "1h", "--save", "at.sim")[0] == 0
    assert result(capsys, "--policy", "greedy", "--resume", "at.sim") == whole
    code, out, err = simulated(capsys, "--policy", "greedy", "--until", "59m", "--resume", "at.sim")
    assert (code, out) == (2, "")
    assert err == "optsched: --until: given 3540 s; allowed: 3600 s, where at.sim was saved, or later\n"


def test_the_figures_up_to_a_save_are_those_up_to_there(files, capsys):
    """Also where nothing happens at the very instant: what runs on until then counts."""
    whole = result(capsys, "--policy", "greedy", "--until", "47m")
    assert result(capsys, "--policy", "greedy", "--until", "47m", "--save", "at.sim") == whole


def test_a_page_can_still_be_asked_for_where_a_simulation_goes_on(files, capsys):
    """The maps for it are those of the instants that are left."""
    assert simulated(capsys, "--policy", "greedy", "--until", "1h", "--save", "at.sim")[0] == 0
    found = from_json(result(capsys, "--policy", "greedy", "--resume", "at.sim", "--html", "page.html"), "x").results[0]
    assert all(each.at_s > 3600 for each in found.maps)
    assert (files / "page.html").read_text().startswith("<!doctype html>")


def test_a_save_of_something_else_is_refused_with_what_differs(files, capsys):
    """One line each: other options, another policy, a broken file, one that is no save."""
    assert simulated(capsys, "--policy", "greedy", "--until", "1h", "--save", "at.sim")[0] == 0
    data = (files / "at.sim").read_bytes()
    broken = bytearray(data)
    broken[len(data) // 2] ^= 0xFF
    told = json.loads(gzip.decompress(data))
    cases = (
        (data, ("--policy", "greedy", "--seed", "1"), "setup: was saved with another trace"),
        (
            data,
            ("--policy", "easy-backfill"),
            "setup: was saved with another policy;",
        ),
        (data, ("--policy", "greedy", "--sample", "5m"), "setup: was saved with other options; allowed: the same"),
        (b"no", ("--policy", "greedy"), "(file): Not a gzipped file (b'no'); allowed: what optsched simulate --save"),
        (bytes(broken), ("--policy", "greedy"), "(file): "),
        (_packed({"format": 1}), ("--policy", "greedy"), "format: is 1; allowed: 2"),
        (
            _packed(told | {"now": -5}),
            ("--policy", "greedy"),
            "now: Input should be greater than or equal to 0",
        ),
        (_packed([]), ("--policy", "greedy"), "(file): "),
    )
    for content, options, said in cases:
        (files / "at.sim").write_bytes(content)
        code, out, err = simulated(capsys, *options, "--resume", "at.sim")
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith(f"at.sim: {said}"), err


def _packed(data: object) -> bytes:
    return gzip.compress(json.dumps(data).encode())


def test_files_that_cannot_be_written_are_refused_before_anything_is_simulated(files, capsys):
    """A folder that is none, a folder, and one file for two things; what was there before stays."""
    (files / "kept").write_text("kept")
    for options, said in (
        (("--html", "none/a.html"), "none/a.html: --html: lies in no folder that exists"),
        (("--until", "1h", "--save", "."), ".: --save: is a folder; allowed: the path of a file"),
        (
            ("--until", "1h", "--save", "kept", "--html", "./kept"),
            "kept: --save: is what --html writes as well",
        ),
    ):
        code, out, err = simulated(capsys, "--policy", "greedy", *options)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(said)
    assert (files / "kept").read_text() == "kept"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "gredy"], "--policy: given 'gredy'; allowed: "),
        (["--failures", "lots"], "--failures: given 'lots'; allowed: "),
        (["--save", "x.sim"], "--save: given without --until; allowed: with --until"),
        (["--policy", "greedy,fifo-best-fit", "--resume", "x.sim"], "allowed: one policy, one profile"),
        (["--until", "soon"], "--until: given 'soon'; allowed: seconds, or 30m, 12h, 7d, up to 10000d"),
        (["--load", "0"], "--load: given '0'; allowed: a number from 0.001 to 1,000"),
        (["--round-every", "-1"], "--round-every: given '-1'; allowed: 0, or up to 86,400 seconds"),
        (["--sample", "59"], "--sample: given '59'; allowed: 60 seconds or more"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(files, capsys, options, said):
    """Which option, what was given, what is allowed."""
    code, out, err = simulated(capsys, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_json_of_something_else_is_refused_with_its_faults():
    """Each field that is wrong, by its path."""
    with pytest.raises(InputError) as refused:
        from_json(json.dumps({"results": [{"policy": 3}]}), "x.json")
    assert any("results.0.policy" in str(fault) for fault in refused.value.faults)


def test_of_several_profiles_the_first_says_how_fast_gangs_really_are(files, capsys):
    """Believing that spans cost nothing changes no speed: what one placement loses is the same under both beliefs."""
    (files / "slow.yaml").write_text("base: default\nname: slow\nspeed: {rack: 0.5}\nspeed_widest: 0.25\n")
    (files / "flat.yaml").write_text("base: default\nname: flat\nspeed: {rack: 1.0}\nspeed_widest: 1.0\n")
    options = ("--policy", "fifo-best-fit", "--failures", "none")
    slow, flat = from_json(result(capsys, *options, "--profile", "slow.yaml", "--profile", "flat.yaml"), "r").results
    assert (slow.profile, flat.profile) == ("slow", "flat")
    # First come, first served looks at no speeds: both run alike.
    assert slow.metrics.gpu_time == flat.metrics.gpu_time
    assert slow.metrics.gpu_time.placement_loss > 0
    (alone,) = from_json(result(capsys, *options, "--profile", "flat.yaml"), "r").results
    assert alone.metrics.gpu_time.placement_loss == 0

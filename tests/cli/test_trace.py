"""optsched trace: what it prints, writes and refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from optsched.cli.main import main
from optsched.files import load_cluster
from optsched.files.traces import load_trace

HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,u1,vcA,16,64,2,COMPLETED,2020-06-09 18:41:00,2020-06-09 18:41:11,2020-06-09 18:42:01,3600,10
12,u2,vcB,8,4,1,TIMEOUT,2020-06-09 19:41:00,2020-06-09 19:41:00,2020-06-09 18:45:36,1800,0
"""


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def helios(tmp_path: Path) -> str:
    path = tmp_path / "cluster_log.csv"
    path.write_text(HELIOS)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert main(["trace", *words]) == code
    out, err = capsys.readouterr()
    return out, err


def test_import_writes_the_normal_form_and_says_what_it_read(helios: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "import", helios)
    assert out.splitlines()[0].startswith("job_id,submit_s,duration_s,gpus,")
    assert out.splitlines()[1] == "11,0,3600,16,64,,,vcA,,completed,2,8,u1,"
    assert err == "cluster_log: 2 jobs, read as helios\n"


def test_a_file_is_written_as_its_name_says(helios: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.csv", "a.csv.gz", "a.json", "a.json.gz"):
        out, err = run(capsys, "import", helios, "--out", str(tmp_path / name))
        assert (out, err.splitlines()[-1]) == ("", f"{tmp_path / name}: 2 jobs written")
        assert load_trace([tmp_path / name])[0].jobs == load_trace([helios])[0].jobs
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "a.csv").read_bytes()


def test_standard_input_is_read(
    helios: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(helios).open("rb") as stream:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stream})())
        out, _ = run(capsys, "describe", "-", "--format", "json")
    assert json.loads(out)["name"] == "stdin"


def test_describe_as_text(helios: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "describe", helios, "--gpus", "16")
    assert err == ""
    # 16 GPUs for an hour and 8 for half of one: 20 GPU-hours, over the hour between the two submissions.
    assert out.startswith("cluster_log  2 jobs · 20.0 GPU-h · over 1 h · from 2020-06-09 18:41:00\n")
    assert "Endings      completed 50 %, failed 50 %" in out
    assert "1.25 of 16 GPUs" in out


def test_describe_as_json_has_the_same_figures(helios: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "describe", helios, "--gpus", "16", "--format", "json")
    facts = json.loads(out)
    assert (facts["format"], facts["jobs"], facts["gpu_s"]) == ("helios", 2, 72_000)
    assert facts["offered"]["load"] == 1.25
    assert facts["outcomes"] == {"completed": 1, "failed": 1}
    assert facts["sizes"][0]["gpus"] == "5-8"


def test_the_shipped_trace_is_described_where_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "describe", "--cluster", "philly-160")
    assert out.startswith("philly-day  428 jobs · 3,192.7 GPU-h")
    assert "0.84 of 160 GPUs" in out


def test_scale_to_a_load(helios: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x.csv")
    run(capsys, "scale", helios, "--load", "0.5", "--gpus", "32", "--out", out)
    described, _ = run(capsys, "describe", out, "--gpus", "32", "--format", "json")
    assert json.loads(described)["offered"]["load"] == pytest.approx(0.5)


def test_a_slice_of_the_shipped_trace(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "scale", "--from", "2h", "--to", "0.25d", "--max-gpus", "8")
    rows = [line.split(",") for line in out.splitlines()[1:]]
    assert rows
    assert all(0 <= float(row[1]) < 4 * 3600 and float(row[3]) <= 8 for row in rows)


def test_every_job_can_ask_for_more(capsys: pytest.CaptureFixture[str]) -> None:
    plain, _ = run(capsys, "scale", "--max-gpus", "8")
    grown, _ = run(capsys, "scale", "--max-gpus", "8", "--grow", "8")
    before, after = ([float(line.split(",")[3]) for line in out.splitlines()[1:]] for out in (plain, grown))
    assert after == [8 * gpus for gpus in before]


def test_a_list_of_machines_becomes_a_cluster_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "machines", tmp_path / "cluster.json"
    source.write_text("machineId, number of GPUs, single GPU mem\nm0,2, 12GB\nm1,8, 24GB\nm2,8, 24GB\nm3,0, 24GB\n")
    out, err = run(capsys, "import", str(source), "--rack-nodes", "2", "--out", str(target))
    assert (out, err.splitlines()[-1]) == ("", "left out: 1 machines without a GPU")
    cluster = load_cluster(target)
    assert [(node.id, node.gpus, node.gpu_type, dict(node.domains)) for node in cluster.nodes] == [
        ("m0", 2, "12GB", {"rack": "12GB-0"}),
        ("m1", 8, "24GB", {"rack": "24GB-0"}),
        ("m2", 8, "24GB", {"rack": "24GB-0"}),
    ]


def test_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "formats")
    assert "helios" in out
    out, _ = run(capsys, "formats", "--format", "json")
    assert {"philly", "sacct", "swf"} <= {entry["name"] for entry in json.loads(out)["formats"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["describe", "nothing.csv"],
            "nothing.csv: (file): there is no such file; allowed: the path of a file that exists",
        ),
        (["import", "--from-format", "swiff"], "--from-format: FORMAT: given 'swiff'; allowed: did you mean 'swf'?"),
        (["scale", "--load", "0.9"], "optsched: --gpus: missing; allowed: with --load, the GPUs"),
        (["scale", "--evenly"], "optsched: --evenly: given without --load; allowed: together with --load and --gpus"),
        (
            ["scale", "--from", "20x"],
            "optsched trace scale: --from: given '20x'; allowed: seconds, or 30m, 12h, 7d",
        ),
        (["scale", "--sample", "2"], "optsched trace scale: --sample: given '2'; allowed: a number above 0, at most 1"),
        (["scale", "--from", "30d"], "optsched: no job is left; allowed: a wider slice"),
        (["scale", "--gpus", "8"], "optsched: --gpus: given without --load; allowed: together with --load"),
        (["scale", "--seed", "8"], "optsched: --seed: given without --sample; allowed: together with --sample"),
        (
            ["scale", "--from", "2h", "--to", "1h"],
            "optsched: --to: given 3600 s; allowed: more than the 7200 s of --from",
        ),
        (["generate", "--hours", "1", "--share", "1e-9"], "optsched: no job is drawn; allowed: more --hours, a larger"),
        (["import", "--rack-nodes", "4"], "optsched: --rack-nodes: given for a trace of jobs; allowed: with a list of"),
        (["import", "--gpus-per-node", "4"], "optsched: --gpus-per-node: given for a trace of jobs; allowed: with a"),
        (["describe", "-", "-"], "optsched: FILE: - is given twice; allowed: standard input once"),
        (["import", "--out", "/no/such/folder/x.csv"], "x.csv: --out: lies in no folder that exists; allowed: "),
        (
            ["generate", "--from-hour", "4400"],
            "optsched: --hours: 4400 + 24 is beyond the end; allowed: up to 4,416 hours",
        ),
    ],
)
def test_what_is_refused_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, *words, code=2)
    assert out == ""
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize("nodes", ["[{id: n1, gpus: 0}]", "[{id: n1, gpus: 2, gpus_bad: [0, 1]}]"])
def test_a_cluster_without_gpus_has_no_load(nodes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cpu.yaml"
    path.write_text(f"{{name: cpus, levels: [], nodes: {nodes}}}")
    _, err = run(capsys, "describe", "--cluster", str(path), code=2)
    assert err == f"optsched: --cluster: {path} has no GPU that is healthy; allowed: a cluster with at least one\n"


def test_loads_and_peaks_agree_and_name_their_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("job_id,submit_s,duration_s,gpus\na,0,100,8\nb,0,100,8\n")
    out, _ = run(capsys, "describe", str(path), "--gpus", "8")
    assert "  all jobs are submitted in one instant, so that there is no load to tell\n" in out
    whole = " ".join(out.split())
    assert "16 GPUs on average, at most 16 at a time, and more than 8 for 100 % of the 1 min 40 s from the" in whole
    out, _ = run(capsys, "describe", str(path), "--gpus", "8", "--format", "json")
    assert json.loads(out)["offered"] == {
        "gpus": 8,
        "load": None,
        "run_s": 100,
        "mean_gpus": 16,
        "peak_gpus": 16,
        "over_share": 1,
    }
    path.write_text("job_id,submit_s,gpus\na,0,8\nb,5,8\n")
    out, _ = run(capsys, "describe", str(path), "--gpus", "8")
    assert "  not known: no job tells how long it ran\n" in out


SCALED = "job_id,submit_s,duration_s,gpus,cpus,num_tasks\na,0,100,2,0.3,3\nb,50,300,4,,1\nc,100,100,1,1e-320,\n"


@pytest.mark.parametrize(
    ("words", "least_or_most", "said"),
    [
        (
            ["--shrink", "1e-307"],
            "1.01e-10",
            "--shrink: 1e-307 moves the last job beyond the 1e+12 s of a trace's submit_s",
        ),
        # 1,500 GPU-seconds in 100 s of 10 GPUs: a load of 1.5, and submit times in inverse proportion to it.
        (["--gpus", "10", "--load", "1e-300"], "1.51e-10", "--load: 1e-300 moves the last job beyond the 1e+12 s"),
        (
            ["--gpus", "10", "--load", "5e-324"],
            "1.51e-10",
            "--load: 4.94066e-324 moves the last job beyond the 1e+12 s",
        ),
        # Only what is submitted before the last job counts: 1,400 GPU-seconds.
        (["--evenly", "--gpus", "10", "--load", "1e-20"], "1.41e-10", "--load: 1e-20 moves the last job beyond"),
        # The job of 4 GPUs.
        (["--grow", "999999"], "250,000", "--grow: 999,999 times the 4 of job b is beyond the 1,000,000 of a trace's"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_scaled_trace_is_refused_or_can_be_read_again(
    words: list[str], least_or_most: str, said: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "t.csv", tmp_path / f"out.{form}"
    path.write_text(SCALED)
    _, err = run(capsys, "scale", str(path), *words, "--out", str(out), code=2)
    assert err.startswith(f"optsched: {said}")
    assert f"allowed: at {'most' if words[0] == '--grow' else 'least'} {least_or_most} for this trace" in err
    assert err.count("\n") == 1
    assert not out.exists()
    # As far as it says, it may go.
    run(capsys, "scale", str(path), *words[:-1], least_or_most.replace(",", ""), "--out", str(out))
    assert len(load_trace([out])[0].jobs) == 3


def test_half_a_character_in_a_name_is_written_as_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "t.json", tmp_path / "out.csv"
    path.write_text('{"jobs": [{"job_id": "a", "submit_s": 0, "gpus": 1, "team": "x\\ud800"}]}')
    run(capsys, "import", str(path), "--out", str(out))
    assert load_trace([out])[0].jobs[0].team == "x\\ud800"


def test_faulty_records_are_warned_of_where_they_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("job_id,submit_s,gpus\na,0,x\nb,0,1\n")
    assert (
        run(capsys, "import", str(path), code=2)[1]
        == f"{path}:2: gpus: given 'x'; allowed: a number from 0 to 1,000,000\n"
    )
    out, err = run(capsys, "import", str(path), "--skip-faulty")
    assert out.count("\n") == 2
    assert err.splitlines()[0].startswith("warning: ")
    assert "left out: 1 records that are wrong, left out as asked" in err

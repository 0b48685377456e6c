"""What sacct prints: delimiters, line breaks inside names, steps, states, GPUs in four columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.errors import InputError
from optsched.files.traces import Source, load_trace, parse_trace
from optsched.values.trace import Trace

NAMES = (
    "JobID",
    "JobName",
    "State",
    "Submit",
    "Start",
    "End",
    "ReqTRES",
    "AllocTRES",
    "NNodes",
    "TimelimitRaw",
    "Account",
)


def record(
    job: str, name: str = "train", state: str = "COMPLETED", tres: str = "cpu=96,gres/gpu=8,mem=60G,node=1"
) -> list[str]:
    day = "2021-04-05T"
    return [job, name, state, f"{day}02:00:00", f"{day}02:10:00", f"{day}03:10:00", tres, "", "1", "120", "lab"]


def text(*records: list[str], mark: str = "|", end: str = "") -> str:
    return "".join(mark.join(cells) + end + "\n" for cells in ([*NAMES], *records))


def trace(given: str) -> Trace:
    return parse_trace([Source("given", given)])[0]


@pytest.mark.parametrize(("mark", "end"), [("|", ""), ("|", "|"), ("|#", ""), (";", ""), ("^^", "^^")])
def test_every_delimiter_and_the_one_at_the_end_of_each_line(mark: str, end: str) -> None:
    (job,) = trace(text(record("7"), mark=mark, end=end)).jobs
    assert (job.gpus, job.cpus, job.memory_gib, job.duration_s, job.requested_s) == (8, 96, 60, 3600, 7200)
    assert (job.team, job.status, job.tasks) == ("lab", "completed", 1)


def test_a_name_with_line_breaks_is_put_together_again() -> None:
    read = trace(text(record("7", name="two\nlines\n\nof it"), record("8"), mark="|#"))
    assert [job.id for job in read.jobs] == ["7", "8"]


def test_a_line_that_is_cut_is_told_and_those_around_it_are_read() -> None:
    given = text(record("7"), record("8"), record("9")).split("\n")
    given[2] = given[2][:40]
    with pytest.raises(InputError) as raised:
        trace("\n".join(given))
    assert [str(fault) for fault in raised.value.faults] == [
        "given:3: (row): 5 cells; allowed: 11 cells, one for each column"
    ]
    read, left = parse_trace([Source("given", "\n".join(given))], skip_faulty=True)
    assert [job.id for job in read.jobs] == ["7", "9"]
    assert len(left) == 1


def test_a_delimiter_inside_a_name_is_told_with_the_way_out() -> None:
    with pytest.raises(InputError, match=r"given:2: \(row\): 12 cells; allowed: 11 cells.*--delimiter takes any text"):
        trace(text(record("7", name="a|b")))


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_bytes(text(record("7", name="NAME")).encode().replace(b"NAME", b"\xff\xfe\x80"))
    assert [job.id for job in load_trace([path])[0].jobs] == ["7"]


def test_steps_are_left_out_and_a_file_of_steps_only_is_no_trace() -> None:
    read = trace(text(record("7"), record("7.batch"), record("7.0")))
    assert len(read.jobs) == 1
    assert read.left_out == {"lines about steps of jobs": 2}
    with pytest.raises(InputError, match="2 lines about steps of jobs, and none about a job"):
        trace(text(record("7.batch"), record("7.0")))


def test_a_requeued_job_counts_once_as_it_ended() -> None:
    (job,) = trace(text(record("7", state="REQUEUED"), record("7", state="CANCELLED by 1000"))).jobs
    assert job.status == "cancelled"


def test_arrays_and_heterogeneous_jobs() -> None:
    read = trace(text(record("7_1"), record("7_[2-9]", state="PENDING"), record("9+0")))
    assert [job.id for job in read.jobs] == ["7_1", "9+0"]
    assert sum(read.left_out.values()) == 1


@pytest.mark.parametrize(
    ("tres", "gpus", "kinds"),
    [
        ("cpu=8,gres/gpu=4,mem=60T,node=1", 4, ()),
        ("cpu=8,gres/gpu:a100=4,gres/gpu=4", 4, ("a100",)),
        ("gres/gpu:a100=4,gres/gpu:h100=2", 6, ("a100", "h100")),
        ("cpu=8,mem=4G,node=1", 0, ()),
    ],
)
def test_gpus_of_trackable_resources(tres: str, gpus: int, kinds: tuple[str, ...]) -> None:
    (job,) = trace(text(record("7", tres=tres))).jobs
    assert (job.gpus, job.gpu_types) == (gpus, kinds)


@pytest.mark.parametrize("number", ["²", "9" * 16, "9" * 5000])
@pytest.mark.parametrize("column", ["ReqTRES", "ReqGRES"])
def test_gpus_that_are_no_number_are_told(column: str, number: str) -> None:
    cell = f"gres/gpu={number}" if column == "ReqTRES" else f"gpu:{number}"
    given = f"JobID|State|Submit|NNodes|{column}\n7|COMPLETED|2021-04-05T02:00:00|1|{cell}\n"
    if (column, number) == ("ReqGRES", "²"):
        # Generic resources that it cannot tell are no GPUs, as elsewhere.
        assert trace(given).jobs[0].gpus == 0
        return
    with pytest.raises(InputError, match=f"given:2: {column}: given 'g.*; allowed: (a )?whole number"):
        trace(given)


@pytest.mark.parametrize("number", ["²", "9" * 400, "9" * 5000])
def test_other_numbers_that_cannot_be_read_are_not_known(number: str) -> None:
    head, cells = "JobID|State|Submit|NNodes|ReqTRES|TimelimitRaw|Timelimit|ReqCPUS", [number, f"cpu={number}"]
    cells += [number, f"{number}-00:00:00", number]
    (job,) = trace(f"{head}\n7|COMPLETED|2021-04-05T02:00:00|{'|'.join(cells)}\n").jobs
    assert (job.tasks, job.cpus, job.requested_s, job.gpus) == (None, None, None, 0)


def test_a_column_that_is_there_twice_has_to_say_the_same() -> None:
    rows = "JobID|State|Submit|ReqTRES|State\n7|COMPLETED|2021-04-05T02:00:00||COMPLETED\n"
    assert [job.status for job in trace(rows).jobs] == ["completed"]
    with pytest.raises(
        InputError, match="given:3: State: two columns of this name say 'COMPLETED' and 'FAILED'; allowed: the same"
    ):
        trace(rows + "8|COMPLETED|2021-04-05T02:00:00||FAILED\n")


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [("gpu:a100:8", 32), ("gpu:8(S:0-1)", 32), ("PER_JOB:gpu:1", 1), ("gpu:1", 4), ("craynetwork:1", 0)],
)
def test_generic_resources_count_per_node(gres: str, gpus: int) -> None:
    given = f"JobID|State|Submit|NNodes|ReqGRES\n7|COMPLETED|2021-04-05T02:00:00|4|{gres}\n"
    assert [job.gpus for job in trace(given).jobs] == [gpus]


def test_what_still_runs_has_no_duration() -> None:
    read = trace(text(record("7", state="RUNNING"), record("8", state="PENDING")))
    assert [(job.duration_s, job.status) for job in read.jobs] == [(None, "running_at_end"), (None, "pending")]


def test_elapsed_in_slurms_own_writing() -> None:
    given = (
        "JobID|State|Submit|AllocTRES|Elapsed|Timelimit\n"
        "7|TIMEOUT|2021-04-05T02:00:00|gres/gpu=1|1-02:03:04|3-00:00:00\n"
    )
    (job,) = trace(given).jobs
    assert (job.duration_s, job.requested_s, job.status) == (93_784, 259_200, "failed")


def test_columns_that_are_missing_are_named() -> None:
    with pytest.raises(InputError) as raised:
        trace("JobID|State|End\n7|COMPLETED|2021-04-05T02:00:00\n")
    assert [str(fault) for fault in raised.value.faults] == [
        "given:1: (columns): none that tells GPUs; allowed: ReqTRES or AllocTRES or ReqGRES or AllocGRES",
        "given:1: (columns): none that tells a submit time; allowed: Submit or Eligible or Start",
    ]


def test_an_unknown_state_is_told() -> None:
    with pytest.raises(InputError, match="given:2: State: given 'COMPLETE'; allowed: did you mean 'COMPLETED'"):
        trace(text(record("7", state="COMPLETE")))

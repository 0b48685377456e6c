"""Importers: a few lines of each format, made by hand, and what they mean; and every kind of fault, told once."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from optsched.errors import InputError
from optsched.files import load_cluster
from optsched.files.dump import cluster_to_dict
from optsched.files.plan_json import write
from optsched.files.traces import Options, Source, load_trace, parse_trace, read_nodes, to_csv, to_json
from optsched.values.trace import Outcome, Trace, TraceJob


def trace(text: str, form: str | None = None, options: Options | None = None, skip_faulty: bool = False) -> Trace:
    return parse_trace([Source("given", text)], form, options, skip_faulty)[0]


def faults(text: str, form: str | None = None) -> list[str]:
    with pytest.raises(InputError) as raised:
        trace(text, form)
    return [str(fault) for fault in raised.value.faults]


PHILLY = """[
{"status": "Pass", "vc": "v1", "jobid": "a_1", "user": "u1", "submitted_time": "2017-10-07 01:00:00", "attempts": [
  {"start_time": "2017-10-07 01:10:00", "end_time": "2017-10-07 01:11:00",
   "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]},
  {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 03:00:00",
   "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu4", "gpu5"]}]},
  {"start_time": "None", "end_time": "2017-10-07 04:00:00", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
{"status": "Killed", "vc": "v1", "jobid": "a_2", "user": "u1", "submitted_time": "2017-10-07 00:59:00", "attempts": []},
{"status": "Failed", "vc": "v2", "jobid": "a_3", "user": "u2", "submitted_time": "2017-10-07 00:59:30 PDT",
 "attempts": [
  {"start_time": "2017-10-07 01:00:00", "end_time": null, "detail": [{"ip": "m9", "gpus": ["gpu7"]}]}]}
]"""


def test_a_philly_job_has_the_gpus_of_its_largest_attempt_and_the_time_of_all() -> None:
    read = trace(PHILLY)
    assert read.format == "philly"
    assert read.starts_at == "2017-10-07T00:59:30"
    third, first = read.jobs
    # 60 s and 3,600 s; the third attempt has no start.
    assert (first.id, first.submit_s, first.gpus, first.duration_s, first.tasks) == ("a_1", 30, 4, 3660, 2)
    assert (first.team, first.user, first.outcome) == ("v1", "u1", Outcome.COMPLETED)
    assert (third.submit_s, third.gpus, third.duration_s, third.outcome) == (0, 1, None, Outcome.FAILED)
    assert list(read.left_out.values()) == [1]


def test_what_is_wrong_in_a_philly_log_is_told_by_line_and_path() -> None:
    told = faults(PHILLY.replace("2017-10-07 03:00:00", "noon").replace('"Killed"', '"Slain"'))
    assert told == [
        "given:5: [0].attempts[1].end_time: given 'noon'; allowed: a date and time such as 2017-10-07 01:12:09, or "
        '"None"',
        "given:8: [1].status: given 'Slain'; allowed: Pass, Failed or Killed",
    ]


HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,u1,vcA,16,64,2,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:01,50,10
12,u2,vcB,0,4,1,TIMEOUT,2020-06-09 18:41:00,2020-06-09 18:41:00,2020-06-09 18:45:36,276,0
"""


def test_helios_states_times_and_sizes() -> None:
    read = trace(HELIOS)
    assert read.format == "helios"
    timed_out, whole = read.jobs
    assert timed_out == TraceJob("12", 0, 0, 276, 4, team="vcB", user="u2", status="failed", tasks=1, gpus_per_task=0)
    assert (whole.submit_s, whole.gpus, whole.tasks, whole.gpus_per_task) == (1, 16, 2, 8)


def test_acme_has_zones_and_kalos_has_memory_per_pod() -> None:
    kalos = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
        "end_time,fail_time,stop_time,duration,queue,gpu_time\n"
        "d1,u1,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 19:00:58+08:00,2023-05-17 11:01:08+00:00,"
        "2023-05-17 11:01:16+00:00,,2023-05-17 11:01:16+00:00,18,10.0,1152.0\n"
    )
    read = trace(kalos)
    assert (read.format, read.starts_at) == ("acme", "2023-05-17T11:00:58Z")
    assert (read.jobs[0].memory_gib, read.jobs[0].outcome) == (8000, Outcome.CANCELLED)


PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,6000,12288,1,460,,LS,Running,100,400,150
p1,12000,16384,8,1000,V100M16|V100M32|V100M16,BE,Pending,90,400,
p2,4000,8192,0,0,,LS,Succeeded,95,100,95
"""


def test_pods_of_2023_share_gpus_and_may_never_run() -> None:
    eight, none, shared = trace(PODS).jobs
    assert (shared.gpus, shared.duration_s, shared.cpus, shared.memory_gib) == (0.46, 250, 6, 12)
    assert (eight.gpus, eight.duration_s, eight.gpu_types) == (8, None, ("V100M16", "V100M32"))
    assert none.gpus == 0


def test_pods_without_times_all_arrive_at_once() -> None:
    read = trace("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,6000,12288,2,1000\n")
    assert [(job.submit_s, job.duration_s, job.gpus) for job in read.jobs] == [(0, None, 2)]
    assert any("no times" in note for note in read.notes)


def test_services_of_2025_may_have_been_there_before_and_after() -> None:
    read = trace(
        "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,"
        "memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n"
        "i0,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,\n"
        "i1,CN,app_0,64,64,0,0,25,25,320.0,320.0,640.0,800.0,8,475,480,500\n"
    )
    before, after = read.jobs
    assert (before.submit_s, before.duration_s, before.priority) == (0, None, "LS/HN")
    assert before.status == "preexisting+running_at_end"
    assert (after.submit_s, after.duration_s, after.gpus, after.status) == (475, 20, 0, "created")


SPOT = """job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
7,57,H800,184,8,16,60,3600.5,Spot
8,13,A10,8,0.5,1,30,60,HP
"""


def test_spot_jobs_of_2026_have_workers() -> None:
    read = trace(SPOT)
    assert [(job.id, job.gpus, job.cpus, job.team, job.priority) for job in read.jobs] == [
        ("8", 0.5, 8, "org13", "HP"),
        ("7", 128, 2944, "org57", "Spot"),
    ]


TASKS = """j1,ps,1.0,Terminated,100.0,200.0,600.0,10.0,,MISC
j1,worker,2.0,Terminated,110.0,250.0,400.0,20.0,50.0,T4
j2,tensorflow,4.0,Running,120.0,,600.0,30.0,100.0,V100
"""


def test_the_task_table_of_2020_has_no_first_line_and_a_job_is_the_sum_of_its_tasks() -> None:
    read = trace(TASKS)
    assert read.format == "alibaba-2020"
    first, second = read.jobs
    # 1 x 600 % + 2 x 400 % of CPU; 10 + 2 x 20 GB; 2 x 50 % of a GPU; from 100 to 250 s.
    assert (first.cpus, first.memory_gib, first.gpus, first.duration_s) == (14, 50, 1, 150)
    assert (first.gpu_types, first.status, first.tasks) == (("T4",), "completed", 3)
    assert (second.gpus, second.duration_s, second.status) == (4, None, "running_at_end")


def test_the_job_table_of_2020_adds_users_and_submit_times() -> None:
    jobs = "job_name,inst_id,user,status,start_time,end_time\nj1,i1,ann,Failed,90.0,250.0\nj2,i2,ben,Running,115.0,\n"
    read, _ = parse_trace([Source("tasks", TASKS), Source("jobs", jobs)])
    assert [(job.submit_s, job.user, job.status) for job in read.jobs] == [
        (90, "ann", "failed"),
        (115, "ben", "running_at_end"),
    ]
    assert "has no GPUs" in faults(jobs)[0]


SWF = """; Version: 2.2
; UnixStartTime: 0
  1 0 5 100 8 -1 -1 16 600 2048 1 3 4 1 2 -1 -1 -1
  2 7 5 50.5 8 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1  99 98 97
  3 8 5 50 8 -1 -1 -1 -1 -1 3 -1 -1 -1 -1 -1 -1 -1
  4 9 -1 -1 -1 -1 -1 4 60 -1 -1 -1 -1 -1 -1 -1 -1 -1"""


def test_swf_has_eighteen_columns_and_perhaps_more_and_no_newline_at_its_end() -> None:
    read = trace(SWF)
    first, second, last = read.jobs
    # 16 processors of 2,048 KiB.
    assert first == TraceJob(
        *("1", 0, 16, 100), memory_gib=16 * 2048 / 1024**2, team="group4", user="user3", priority="queue2",
        status="completed", requested_s=600,
    )  # fmt: skip
    assert (second.gpus, second.duration_s, second.outcome, second.requested_s) == (8, 50.5, Outcome.CANCELLED, None)
    assert (last.id, last.gpus, last.duration_s) == ("4", 4, None)
    assert list(read.left_out.values()) == [1]


def test_processors_become_gpus_as_asked() -> None:
    assert [job.gpus for job in trace(SWF, options=Options(procs_per_gpu=6)).jobs] == [3, 2, 1]


def test_faults_of_swf_name_line_and_column() -> None:
    told = faults(SWF.replace("50.5", "soon").replace(" 4 60 -1", " 4 60"))
    assert told == [
        "given:4: run time: given 'soon'; allowed: a number from 0 to 1e+12",
        "given:6: (row): 17 columns; allowed: at least 18, as SWF has",
    ]


def test_results_of_cqsim() -> None:
    read = trace("1;100;100;14400.0;144.5;0.0;37.0;37.0;14437.0\n")
    assert read.jobs == (TraceJob("1", 37, 100, 144.5, requested_s=14400),)


SIA = "name,time,application,num_replicas,batch_size\nbert-0,401.0,bert,12,4096\n"


def test_sia_and_gavel_tell_no_durations() -> None:
    sia = trace(SIA)
    assert sia.jobs == (TraceJob("bert-0", 401, 12),)
    seven = trace("LM (batch size 5)\tcd x && python main.py\t--steps\t1\t27890298\t961301.0\t2\n")
    nine = trace("LM (batch size 5)\tcd x\t--steps\t1\t27890298\t2\t1.0\t-1.0\t961301.0\n")
    assert [(job.id, job.submit_s, job.gpus, job.duration_s) for job in seven.jobs + nine.jobs] == [
        ("g0", 961301, 2, None)
    ] * 2


SIA_TABLE = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,v1
2017-09-29 07:01:55,10.0,8,80.0,v2
"""


def test_rows_of_the_philly_table_are_named_by_their_place() -> None:
    assert [(job.id, job.submit_s, job.gpus) for job in trace(SIA_TABLE).jobs] == [("p1", 0, 8), ("p0", 864_000, 1)]


def test_the_normal_form_survives_a_turn_as_csv_and_as_json(tmp_path: Path) -> None:
    for text in (PHILLY, HELIOS, PODS, SWF):
        read = trace(text)
        path = tmp_path / "trace.csv.gz"
        path.write_bytes(gzip.compress(to_csv(read).encode()))
        assert load_trace([path])[0].jobs == read.jobs
        assert load_trace([path])[0].format == "optsched"
        assert trace(to_json(read)).jobs == read.jobs


def test_a_misspelt_column_is_told_and_not_passed_over() -> None:
    told = faults("job_id,submit_s,gpus,duraton_s\na,0,1,5\n")
    assert told[0].startswith("given:1: duraton_s: not a column of the normal form; allowed: job_id, submit_s")


def test_every_fault_is_told_with_line_column_and_what_is_allowed() -> None:
    told = faults(
        "job_id,submit_s,duration_s,gpus\na,0,x,1\na2,-5,1,1\n,1,1,1\nb,1,1\na3,0,1,nan\nok,0,1,1\nok,0,1,1\n"
    )
    assert told == [
        "given:2: duration_s: given 'x'; allowed: a number from 0 to 1e+10",
        "given:3: submit_s: given '-5'; allowed: a number from 0 to 1e+12",
        "given:4: job_id: empty; allowed: some text",
        "given:5: (row): 3 cells; allowed: 4 cells, one for each column",
        "given:6: gpus: given 'nan'; allowed: a number from 0 to 1,000,000",
        "given:8: job id: 'ok' is there twice; allowed: an id of its own for each job",
    ]


def test_faulty_records_can_be_left_out_and_are_counted() -> None:
    source = Source("given", "job_id,submit_s,gpus\na,0,x\nb,0,1\n")
    read, left = parse_trace([source], skip_faulty=True)
    assert [job.id for job in read.jobs] == ["b"]
    assert len(left) == 1
    assert list(read.left_out.values()) == [1]
    with pytest.raises(InputError):  # nothing would be left
        parse_trace([Source("given", "job_id,submit_s,gpus\na,0,x\n")], skip_faulty=True)


def test_files_of_two_formats_are_no_trace() -> None:
    with pytest.raises(InputError, match=r"two:1: \(format\): format philly-sia, while one is helios; ") as raised:
        parse_trace([Source("one", HELIOS), Source("two", SIA_TABLE)])
    assert len(raised.value.faults) == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("id,job_num,cpu_job_num,gpu_job_num\nSeren,1,1,1\n", "totals of clusters"),
        ("machineId, number of GPUs, single GPU mem\nm0,2, 12GB\n", "a list of machines"),
        ("JobID State Start\n----- ----- -----\n1 COMPLETED x\n", "sacct -P"),
        ("Dear colleague,\n", "begins 'Dear colleague,'"),
    ],
)
def test_what_is_no_trace_is_told_for_what_it_is(text: str, what: str) -> None:
    (told,) = faults(text)
    assert what in told
    assert "allowed: a trace of one of the formats optsched," in told


def test_a_format_can_be_said_where_it_cannot_be_told() -> None:
    assert trace("job_id,submit_s,gpus\na,0,1\n", "optsched").format == "optsched"
    assert "missing" in faults(SIA_TABLE, "optsched")[-1]


def test_damaged_files_are_refused_or_read_and_never_more_than_that() -> None:
    """Cut, doubled and overwritten at random: whatever comes of it is a trace that survives a turn, or faults."""
    rng = np.random.default_rng(11)
    given = (PHILLY, HELIOS, PODS, TASKS, SWF, SIA_TABLE, SPOT, SACCT)
    bits = (
        "nan",
        "1e400",
        "9" * 400,
        "None",
        '"',
        "\n",
        ",",
        ";",
        "\t",
        "{",
        "]",
        "٣",
        "\x00",
        "-1",
        "2021-13-40T99:99:99",
        "0001-01-01T00:00:00+14:00",
        "\r",
        "²",
        "1e12",
    )
    for number in range(400):
        text = given[number % len(given)]
        for _ in range(int(rng.integers(1, 6))):
            at, long = int(rng.integers(len(text) + 1)), int(rng.integers(0, 30))
            change = int(rng.integers(3))
            inserted = ("", text[at : at + long] * 2, bits[int(rng.integers(len(bits)))])[change]
            text = text[:at] + inserted + text[at + long * (change < 2) :]
        for skip in (False, True):
            try:
                read, _ = parse_trace([Source("given", text)], skip_faulty=skip)
            except InputError:
                continue
            assert trace(to_csv(read)).jobs == read.jobs
            assert trace(to_json(read)).jobs == read.jobs


SACCT = """JobID|State|Submit|Start|End|ReqTRES|NNodes|TimelimitRaw|Elapsed|ReqMem|ReqGRES|ReqCPUS
1|COMPLETED|2021-01-01T00:00:00|||cpu=8,gres/gpu=4,node=1|1|60|1-02:03:04|4G|gpu:4|8
2|FAILED|2021-01-02T00:00:00|2021-01-02T00:00:00|2021-01-02T01:00:00||2|60||4Gn|gpu:4|8
"""
NORMAL = "job_id,submit_s,gpus,team\na,0,1,x\n"


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (NORMAL, "gpus"),
        (NORMAL, "team"),
        (HELIOS, "gpu_num"),
        (PODS, "num_gpu"),
        (SPOT, "worker_num"),
        (SIA_TABLE, "num_gpus"),
        (SIA, "num_replicas"),
        ("\n" + SIA, "time"),
        ("job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu\n" + TASKS, "plan_gpu"),
    ],
)
def test_a_column_that_is_there_twice_is_one_fault_of_the_first_line(text: str, column: str) -> None:
    line = 1 + len(text) - len(text.lstrip("\n"))
    head, *rows = text.lstrip("\n").splitlines()
    twice = "\n" * (line - 1) + "\n".join([f"{head},{column}", *(f"{row},1" for row in rows)])
    assert faults(twice) == [f"given:{line}: {column}: 2 columns are called so; allowed: one column of each name"]


def test_a_key_that_is_there_twice_is_a_fault() -> None:
    told = "the key is given twice in one mapping; allowed: each key once"
    assert faults('{"jobs": [\n{"job_id": "a", "submit_s": 0, "gpus": 8, "gpus": 4}]}') == [
        f"given:2: jobs[0].gpus: {told}"
    ]
    assert faults(PHILLY.replace('"jobid": "a_2"', '"jobid": "a_2", "jobid": "b"')) == [f"given:8: [1].jobid: {told}"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SPOT.replace("8,16,", "8,1e6,"), "given:2: gpus: comes to 8,000,000; allowed: a number from 0 to 1,000,000"),
        (SPOT.replace("184", "1e12"), "given:2: cpus: comes to 1.6e+13; allowed: a number from 0 to 1e+12"),
        (TASKS.replace(",20.0,", ",1e12,"), "given:1: mem_gb: comes to 2e+12; allowed: a number from 0 to 1e+12"),
        (PODS.replace(",400,150", ",1e12,150"), "given:2: duration_s: comes to 9.999999998e+11; allowed: a number"),
        (SACCT.replace("1-02", "999999-02"), "given:2: duration_s: comes to 8.639992098e+10"),
        (SACCT.replace("|4G|", f"|{'9' * 400}G|"), "given:2: mem_gb: comes to inf; allowed: a number from 0 to 1e+12"),
        (
            SACCT.replace("||2|60", "||2000000|60"),
            "given:3: num_tasks: comes to 2,000,000; allowed: a number from 0 to",
        ),
    ],
)
def test_what_importers_work_out_fits_the_normal_form_or_is_a_fault(text: str, told: str) -> None:
    assert any(fault.startswith(told) for fault in faults(text))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_beyond_the_years_that_have_a_number_is_a_fault(text: str) -> None:
    (told,) = faults(HELIOS.replace("2020-06-09 18:41:01", text))
    assert told == f"given:2: submit_time: given '{text}'; allowed: a date and time such as 2017-10-07 01:12:09"


MACHINES = "node_id,gpus,gpu_type,cpus,mem_gb,rack\n"
NODE = """kind: Node
metadata: {name: a}
status: {capacity: {nvidia.com/gpu: 8, cpu: 8}}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (MACHINES + "a,8,h,1,1,p/b/r\n", ""),
        (MACHINES + "a,8,h,1,1,p/q/b/r\n", "given:2: rack: 4 domains; allowed: at most 3: pod, block, rack"),
        (MACHINES + "a,8,h,1,1,r r\n", "given:2: rack: given 'r r'; allowed: "),
        (MACHINES + "a,8,h h,1,1,r\n", "given:2: gpu_type: given 'h h'; allowed: "),
        (MACHINES + f"{'a' * 254},8,h,1,1,r\n", "given:2: id: given 'aaa"),
        (MACHINES + "a,8,h,1e12,1,r\n", "given:2: cpus: comes to 1e+12; allowed: a number from 0 to 1,000,000,000"),
        (MACHINES + "a,8,h,1,1e12,r\n", "given:2: mem_gb: comes to 1e+12 GiB; allowed: a number from 0 to 9.313"),
        (MACHINES.replace("rack", "gpus") + "a,8,h,1,1,4\n", "given:1: gpus: 2 columns are called so; allowed: one"),
        (NODE, ""),
        (NODE.replace("cpu: 8", f"cpu: {'9' * 400}"), ""),
        (NODE.replace("cpu: 8", "cpu: 8, cpu: 9"), "given:3: status.capacity.cpu: the key is given twice in one"),
    ],
)
def test_a_list_of_machines_is_refused_or_can_be_read_as_a_cluster(text: str, told: str, tmp_path: Path) -> None:
    try:
        found = read_nodes(Source("given", text)).cluster
    except InputError as error:
        (fault,) = map(str, error.faults)
        assert told
        assert fault.startswith(told)
    else:
        assert not told
        (tmp_path / "cluster.json").write_text(write(cluster_to_dict(found)))
        assert load_cluster(tmp_path / "cluster.json").nodes == found.nodes


def test_a_carriage_return_inside_a_name_survives_a_turn() -> None:
    read = trace('job_id,submit_s,gpus,team\na,0,1,"x\ry"\nb,0,1,"x\r\ny"\n')
    assert [job.team for job in read.jobs] == ["x\ry", "x\r\ny"]
    assert trace(to_csv(read)).jobs == read.jobs

"""Every published sample: read with the right counts, or refused with one line that says what it is."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from optsched.errors import InputError
from optsched.files.traces import load_trace, node_format, read_nodes, read_source
from optsched.topology.tree import build_tree
from tests.files.shared import DATA, needs_data

pytestmark = needs_data
RAW = DATA / "raw"

READ = [
    # file, format, jobs, GPUs of all jobs, left out
    ("philly_cluster_job_log.sample.json", "philly", 2, 9, 1),
    ("philly_sia.head200.csv", "philly-sia", 200, 213, 0),
    ("helios_cluster_log.sample.csv", "helios", 3, 6, 0),
    ("acme_trace_seren.sample.csv", "acme", 2, 16, 0),
    ("alibaba_openb_pod_list_default.head200.csv", "alibaba-2023", 200, 170.15, 0),
    ("alibaba_openb_pod_list_gpuspec33.head200.csv", "alibaba-2023", 200, 170.15, 0),
    ("alibaba_openb_pod_list_gpushare100.head200.csv", "alibaba-2023", 200, 0, 0),
    ("alibaba_openb_pod_list_multigpu50.head200.csv", "alibaba-2023", 200, 170.15, 0),
    ("alibaba_dlrm2025.head200.csv", "alibaba-2025", 200, 89, 0),
    ("alibaba_spot2026_heaviest_jobs.csv", "alibaba-2026", 200, 60_884, 0),
    ("swf_kth_sp2_header_and_jobs.swf", "swf", 9, 450, 0),
    ("swf_sdsc_sp2_rebuilt.head200.swf", "swf", 200, 3450, 0),
    ("cqsim_kit_fh2.head200.rst", "cqsim", 200, 176_919, 0),
    ("sia_workload-1.head200.csv", "sia", 200, 1792, 0),
    ("gavel_msr_0e4a51.head200.trace", "gavel", 200, 444, 0),
    ("sacct_gcm_jobname_with_newline.txt", "sacct", 2, 1280, 2),
]
REFUSED = [
    ("acme_cluster_summary.csv", ":1: (format): no trace of jobs: totals of clusters"),
    ("helios_venus_cluster_throughput.head200.csv", ":1: (format): no trace of jobs: counts per ten minutes"),
    ("alibaba_pai2020_headers.txt", ":1: (format): a format that is not known"),
    ("sacctmgr_gcm_qos.txt", ":1: (format): no trace of jobs: classes of service"),
    ("sacct_gcm_all_fields.txt", ": JobID: 5 lines about steps of jobs, and none about a job"),
    ("sacct_gcm_gpu_steps.txt", ": JobID: 10 lines about steps of jobs, and none about a job"),
    ("sacct_gcm_running.txt", ": JobID: 10 lines about steps of jobs, and none about a job"),
    ("sacct_gcm_invalid_lines.txt", ":2: (row): 93 cells"),
    ("sacct_gcm_jobs_steps_4cols.head200.txt", ":1: (columns): none that tells GPUs"),
]
MACHINES = [
    # file, format, machines with GPUs, GPUs, left out
    ("philly_cluster_machine_list", "philly", 552, 2490, 0),
    ("alibaba_openb_node_list_all_node.head200.csv", "alibaba-2023", 22, 44, 178),
    ("alibaba_spot2026_node_info_df.head200.csv", "alibaba-2026", 200, 469, 0),
]
REFUSED_MACHINES = [
    ("alibaba_openb_node_list_gpu_node.head.yaml", ":193: metadata.name: missing"),  # the sample ends inside a node
    ("alibaba_lingjun2023_topo.head200.csv", ":2: (columns): GPUs of a machine are not told"),
]


def test_every_sample_is_spoken_for() -> None:
    names = {row[0] for table in (READ, REFUSED, MACHINES, REFUSED_MACHINES) for row in table}
    assert names >= {path.name for path in RAW.iterdir()}


@pytest.mark.parametrize(("name", "form", "jobs", "gpus", "left_out"), READ, ids=[row[0] for row in READ])
def test_a_sample_is_read(name: str, form: str, jobs: int, gpus: float, left_out: int) -> None:
    read, _ = load_trace([RAW / name])
    assert (read.format, len(read.jobs), sum(read.left_out.values())) == (form, jobs, left_out)
    assert sum(job.gpus for job in read.jobs) == pytest.approx(gpus)


@pytest.mark.parametrize(("name", "said"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_sample_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        load_trace([RAW / name])
    (fault,) = raised.value.faults
    assert str(fault).startswith(f"{RAW / name}{said}")


@pytest.mark.parametrize(("name", "form", "nodes", "gpus", "left_out"), MACHINES, ids=[row[0] for row in MACHINES])
def test_a_list_of_machines_is_a_cluster(name: str, form: str, nodes: int, gpus: int, left_out: int) -> None:
    source = read_source(RAW / name)
    assert node_format(source) == form
    read = read_nodes(source)
    assert (len(read.cluster.nodes), sum(read.left_out.values())) == (nodes, left_out)
    assert sum(node.gpus for node in read.cluster.nodes) == gpus


@pytest.mark.parametrize(("name", "said"), REFUSED_MACHINES, ids=[row[0] for row in REFUSED_MACHINES])
def test_a_list_of_machines_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read_nodes(read_source(RAW / name))
    (fault,) = raised.value.faults
    assert str(fault).startswith(f"{RAW / name}{said}")


def test_the_clos_of_lingjun_becomes_three_levels() -> None:
    read = read_nodes(read_source(DATA / "alibaba_lingjun2023_nodes.csv"), gpus_per_node=8)
    assert read.cluster.levels == ("pod", "block", "rack")
    assert len(read.cluster.nodes) == 847
    # Switch numbers repeat from pod to pod, so that only a whole path names a leaf: 119 of them, in 3 pods.
    tree = build_tree(read.cluster)
    assert [tree.domain_count(level) for level in range(4)] == [1, 3, 119, 847]


@pytest.mark.parametrize(
    ("raw", "derived", "rows"),
    [
        ("alibaba_openb_pod_list_default.head200.csv", "alibaba_openb2023_default.csv", 200),
        ("alibaba_openb_pod_list_gpuspec33.head200.csv", "alibaba_openb2023_gpuspec33.csv", 200),
        ("alibaba_dlrm2025.head200.csv", "alibaba_dlrm2025.csv.gz", 200),
    ],
)
def test_the_normal_form_that_others_derived_is_what_the_importer_makes(raw: str, derived: str, rows: int) -> None:
    ours = {job.id: job for job in load_trace([RAW / raw])[0].jobs}
    theirs = {job.id: job for job in load_trace([DATA / derived])[0].jobs}
    assert len(ours) == rows
    rounded = {key: replace(job, memory_gib=round(job.memory_gib or 0, 3)) for key, job in ours.items()}
    same = [job for key, job in rounded.items() if theirs[key] == job]
    assert len(same) == rows


def test_whole_traces_are_read() -> None:
    philly, _ = load_trace([DATA / "philly2017_jobs.csv.gz"])
    assert (len(philly.jobs), sum(job.gpus for job in philly.jobs)) == (82_247, 107_235)
    spot, _ = load_trace([DATA / "alibaba_spot2026_partial_jobs.csv"])
    assert len(spot.jobs) == 1392
    assert max(job.gpus for job in spot.jobs) == 1408


def test_rows_of_the_philly_table_have_the_names_of_the_whole_trace() -> None:
    theirs = {job.id: job for job in load_trace([DATA / "philly2017_jobs.csv.gz"])[0].jobs}
    ours = load_trace([RAW / "philly_sia.head200.csv"])[0].jobs
    assert all((theirs[job.id].duration_s, theirs[job.id].team) == (job.duration_s, job.team) for job in ours)


def test_the_heaviest_jobs_are_rows_of_the_partial_trace() -> None:
    with (DATA / "alibaba_spot2026_partial_jobs.csv").open() as file:
        known = {row["job_id"] for row in csv.DictReader(file)}
    assert {job.id for job in load_trace([RAW / "alibaba_spot2026_heaviest_jobs.csv"])[0].jobs} <= known

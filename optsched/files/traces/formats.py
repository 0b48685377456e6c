"""The formats of traces: how each is told by its content, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optsched.files.traces import alibaba, normal, pai, papers, philly, sacct, slurm_csv, swf
from optsched.files.traces.source import Options, Parsed, Source


@dataclass(frozen=True, slots=True)
class Format:
    """One format: its name, what it is in a line, how it is told and how it is read."""

    name: str
    about: str
    told_by: Callable[[Source], bool]
    read: Callable[[Sequence[Source], Options, Parsed], None]


FORMATS = {
    entry.name: entry
    for entry in (
        Format("optsched", "the normal form as CSV", normal.is_csv, normal.read_csv),
        Format("optsched-json", "the normal form as JSON", normal.is_json, normal.read_json),
        Format("philly", "Microsoft Philly, cluster_job_log (JSON)", philly.is_log, philly.read_log),
        Format(
            "philly-sia", "Microsoft Philly as the artifact of Sia has it (CSV)", philly.is_table, philly.read_table
        ),
        Format("helios", "SenseTime Helios, cluster_log.csv", slurm_csv.is_helios, slurm_csv.read_helios),
        Format("acme", "Acme, trace_seren.csv and trace_kalos.csv", slurm_csv.is_acme, slurm_csv.read_acme),
        Format("alibaba-2020", "Alibaba PAI, pai_task_table and pai_job_table", pai.is_pai, pai.read_pai),
        Format("alibaba-2023", "Alibaba openb_pod_list_*.csv", alibaba.is_2023, alibaba.read_2023),
        Format("alibaba-2025", "Alibaba disaggregated_DLRM_trace.csv", alibaba.is_2025, alibaba.read_2025),
        Format("alibaba-2026", "Alibaba spot GPU, job_info_df.csv", alibaba.is_2026, alibaba.read_2026),
        Format("sacct", "Slurm, sacct -P, -p or --delimiter", sacct.is_sacct, sacct.read_sacct),
        Format("swf", "Standard Workload Format", swf.is_swf, swf.read_swf),
        Format("cqsim", "results of CQSim (.rst)", swf.is_cqsim, swf.read_cqsim),
        Format("sia", "workloads of Sia (CSV)", papers.is_sia, papers.read_sia),
        Format("gavel", "traces of Gavel (tab-separated)", papers.is_gavel, papers.read_gavel),
    )
}
"""In the order in which they are tried."""

OTHER_TABLES = (
    (("job_num", "gpu_job_num"), "totals of clusters (Acme's cluster_summary.csv)"),
    (("submit_job_all", "submit_gpu_num"), "counts per ten minutes (cluster_throughput.csv of Helios)"),
    (("inst_id", "worker_name"), "instances or measurements of PAI 2020"),
    (("inst_id", "workload"), "the tags of groups of PAI 2020"),
)
"""Tables that stand beside traces and hold no jobs."""


def what_else(source: Source) -> str:
    """Return what a file is that is no trace of jobs, as far as it can be told."""
    for columns, what in OTHER_TABLES:
        if source.has(*columns):
            return what
    first = source.first
    if first.startswith("Name|Priority|"):
        return "classes of service (sacctmgr show qos)"
    if "JobID" in first.split() and "State" in first.split():
        return "sacct's table for people; its parsable form can be read (sacct -P)"
    return ""

"""What already runs is never refused: it is told, with the numbers."""

from __future__ import annotations

import pytest

from tests.files.builders import data, fault, job, load, node, running, scenario, told, warnings


def test_a_running_job_needs_a_placement_on_known_nodes() -> None:
    assert fault(jobs=[running(placement={})]).wrong == "a running job has no placement"
    assert told(jobs=[running(placement={"n9": 8})]) == [("jobs[0] (j1).placement.n9", "unknown node 'n9'")]
    assert fault(jobs=[running(placement={"n0": []})]).wrong == "given a list of 0"
    assert fault(jobs=[running(placement={"n0": 0})]).wrong == "given 0"
    assert fault(jobs=[running(placement={"n0": [1, 1]})]).wrong == "a GPU index is listed twice"


def test_a_queued_job_has_no_placement() -> None:
    assert fault(jobs=[job(placement={"n0": 8})]).wrong == "a queued job has a placement"


def test_indices_are_kept_sorted_and_counts_as_counts() -> None:
    jobs = load(jobs=[running("a", gpus=4, placement={"n0": [3, 0], "n1": 2})]).jobs
    assert jobs[0].placement == {"n0": (0, 3), "n1": 2}


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([running("a"), running("b")], "node n0: 16 GPUs are booked, it has 8"),
        ([running("a", placement={"n0": 4})], "job a holds 4 GPUs, its size is 8"),
        ([running("a", gpus=2, placement={"n0": [6, 8]})], "job a holds GPU 8 of node n0, which has 8 GPUs"),
        (
            [running("a", gpus=1, placement={"n0": [1]}), running("b", gpus=2, placement={"n0": [1, 2]})],
            "GPU 1 of node n0 is booked by a and by b",
        ),
        (
            [running("a", gpus_per_node=4, placement={"n0": 6, "n1": 2})],
            "job a holds 6 GPUs on a node, its gpus_per_node is 4",
        ),
        (
            [running("a", topology={"required": "rack"}, placement={"n1": 4, "n2": 4})],
            "job a runs in 2 domains of its required level rack",
        ),
    ],
)
def test_bookings_that_should_not_be_are_warnings(jobs: list[dict[str, object]], text: str) -> None:
    assert warnings(jobs=jobs) == (text,)


def test_a_node_with_no_gpus_keeps_what_it_runs() -> None:
    text = warnings(cluster={"nodes": [node("n0", gpus=0)]}, jobs=[running()])
    assert text == ("node n0 has 0 GPUs: it can run nothing", "node n0: 8 GPUs are booked, it has 0")


def test_a_team_above_its_limit_or_quota_is_a_warning() -> None:
    above_limit = warnings(teams=[{"id": "p", "limit": {"gpus": 4}}, {"id": "t", "parent": "p"}], jobs=[running()])
    assert above_limit == ("team p runs 8 GPUs, its limit is 4",)
    above_quota = warnings(teams=[{"id": "t", "quota": {"gpus": 4}}], jobs=[running()])
    assert above_quota == ("above their quota, on what others lend: t 8 of 4 GPUs",)
    firm = warnings(teams=[{"id": "t", "quota": {"gpus": 4}}], jobs=[running(preemptible=False)])
    assert firm[0] == "team t runs 8 non-preemptible GPUs, its quota is 4"


def test_more_than_five_warnings_of_a_kind_are_counted() -> None:
    jobs = [running(f"j{i}", gpus=2, placement={"n0": 1}) for i in range(8)]
    text = warnings(jobs=jobs)
    assert len(text) == 6
    assert text[-1] == "... and 3 more: running jobs of another size"


def test_names_that_no_node_has_are_worth_a_word() -> None:
    text = warnings(jobs=[job("a", gpu_types=["h100"], exclude_nodes=["gone"], speed={"su": 0.5})])
    assert text == (
        "job a: exclude_nodes names gone, which is unknown",
        "job a: speed names the level 'su', which is unknown",
        "no node has GPUs of type h100, which 1 jobs name: a",
    )


def test_a_priority_above_the_ceiling_of_a_team_above_is_refused_for_queued_jobs_only() -> None:
    teams = [{"id": "p", "max_priority": "P2"}, {"id": "t", "parent": "p"}]
    found = fault(teams=teams, jobs=[job(priority="P1")])
    assert (found.field, found.wrong) == ("jobs[0] (j1).priority", "given P1, above the ceiling of team p")
    assert warnings(teams=teams, jobs=[running(priority="P1")]) == (
        "job j1 has priority 3000, the ceiling of team p is 2000",
    )


def test_instants_that_are_left_out() -> None:
    started = {"state": "running", "placement": {"n0": 8}}
    jobs = load(jobs=[job("a"), job("b", **started), job("c", submitted_at=7, **started)]).jobs
    assert [(entry.submitted_at, entry.started_at) for entry in jobs] == [(100, None), (100, 100), (7, 7)]


def test_events_are_sorted_by_time_and_parsed_into_values() -> None:
    events = [
        {"at": 300, "type": "job_finished", "job": "a", "run": 1, "released_nodes": ["n0"]},
        {"at": 200, "type": "submit", "job": job("a", priority="P1")},
        {"at": 200, "type": "job_update", "job": "a", "set": {"gpus": 16, "topology": {"preferred": "rack"}}},
        {"at": 400, "type": "team_set", "team": {"id": "u", "parent": "t"}},
        {"at": 400, "type": "node_added", "node": node("n9", domains={"rack": "r9"})},
        {"at": 400, "type": "profile_set", "profile": {"base": "quota"}},
        {
            "at": 500,
            "type": "reservation_set",
            "reservation": {"id": "m", "nodes": ["n9"], "start_at": 600, "end_at": 700},
        },
    ]
    found = scenario(events=events).events
    assert [(event.at, event.type) for event in found[:3]] == [
        (200, "submit"),
        (200, "job_update"),
        (300, "job_finished"),
    ]
    assert found[0].fields["job"].submitted_at == 200  # type: ignore[attr-defined]
    changed = {"gpus": 16, "min_gpus": 16, "max_gpus": 16, "required": None, "preferred": "rack"}
    assert found[1].fields == {"job": "a", "set": changed}
    assert found[2].fields == {"job": "a", "run": 1, "released_nodes": ("n0",)}
    assert [type(value).__name__ for event in found[3:] for value in event.fields.values()] == [
        "Team",
        "Node",
        "Profile",
        "Reservation",
    ]


@pytest.mark.parametrize(
    ("event", "field", "wrong"),
    [
        ({"at": 200, "type": "node_dwon", "node": "n0"}, "type", "unknown event type 'node_dwon'"),
        ({"at": 50, "type": "node_down", "node": "n0"}, "at", "50 is before now, 100"),
        ({"at": 200, "type": "node_down", "nod": "n0", "node": "n1"}, "nod", "unknown key 'nod'"),
        ({"at": 200, "type": "node_down"}, "node", "is missing"),
        ({"at": 200, "type": "submit", "job": job(gpus=0)}, "job.gpus", "given 0"),
        ({"at": 200, "type": "submit", "job": running()}, "job.state", "given 'running'"),
        (
            {"at": 200, "type": "job_update", "job": "q", "set": {"gpus": 7}},
            "set.gpus",
            "7 is not a multiple of gpus_per_node 8",
        ),
        ({"at": 200, "type": "job_update", "job": "q", "set": {"run": 7}}, "set.run", "cannot be set by an update"),
        ({"at": 200, "type": "job_update", "job": "zz", "set": {}}, "job", "unknown job 'zz'"),
        (
            {"at": 200, "type": "team_set", "team": {"id": "t", "parent": "t"}},
            "team.parent",
            "the teams form a circle: t -> t",
        ),
        ({"at": 200, "type": "node_gpus_changed", "node": "n0", "gpus": -1}, "gpus", "given -1"),
    ],
)
def test_an_event_that_cannot_be_is_refused(event: dict[str, object], field: str, wrong: str) -> None:
    found = fault(jobs=[job("q", gpus_per_node=8)], events=[event])
    assert (found.field, found.wrong) == (f"events[0].{field}", wrong)


def test_an_event_of_an_unknown_job_or_node_is_a_warning() -> None:
    events = [{"at": 200, "type": "job_finished", "job": "gone"}, {"at": 200, "type": "cordon", "node": "gone"}]
    assert warnings(events=events) == (
        "events[0]: job_finished names the job 'gone', which is unknown",
        "events[1]: cordon names the node 'gone', which is unknown",
    )


def test_notes_for_readers_are_passed_over() -> None:
    assert load(**data(about="x", rules=["y"], expect={"states": {}})).now == 100

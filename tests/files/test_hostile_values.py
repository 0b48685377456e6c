"""Values that cannot be: each is refused with its field, the value given and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched.errors import InputError
from optsched.files import load_snapshot, parse_snapshot
from tests.files.builders import SHARED, data, fault, faults, job, load, needs_cases, node, running, told, warnings

GPUS = "a whole number from 1 to 1,000,000 (a job needs at least 1 GPU)"


def give(case: str) -> list[dict[str, object]]:
    entries = json.loads((SHARED / "hostile.json").read_text())
    found: list[dict[str, object]] = next(entry["give"] for entry in entries if entry["id"] == case)
    return found


@pytest.mark.parametrize(
    ("gpus", "shown"),
    [
        (-4, "-4"),
        (0, "0"),
        (2.5, "2.5"),
        (8.0, "8.0"),
        ("8", "'8'"),
        (True, "true"),
        (2**31, "2147483648"),
        (2**64, str(2**64)),
    ],
)
def test_gpus_that_are_no_whole_number_from_1_to_a_million_are_refused(gpus: object, shown: str) -> None:
    found = fault(jobs=[job(gpus=gpus)])
    assert (found.field, found.wrong, found.allowed) == ("jobs[0] (j1).gpus", f"given {shown}", GPUS)


def test_null_is_no_value_absent_is_the_only_way_to_say_unknown() -> None:
    found = fault(jobs=[job(estimated_runtime_s=None)])
    assert found.wrong == "given null"
    assert found.allowed.endswith("(leave the key out instead of null)")


@pytest.mark.parametrize("priority", [2**63, -(2**63), 10**9 + 1, 1.5, True])
def test_priorities_beyond_a_billion_are_refused(priority: object) -> None:
    found = fault(jobs=[job(priority=priority)])
    assert found.field == "jobs[0] (j1).priority"
    assert found.allowed == "a priority class of the profile, or a whole number from -1,000,000,000 to 1,000,000,000"


def test_an_unknown_priority_class_is_refused_with_the_known_ones() -> None:
    found = fault(jobs=[job(priority="P7")])
    assert found.wrong == "unknown priority class 'P7'"
    assert "P0, P1, P2, P3, P4" in found.allowed


@pytest.mark.parametrize("runtime", [1e308, 0, -1, "2-12", "4:00", float("nan"), float("inf"), False])
def test_run_times_that_do_not_parse_are_refused_and_become_no_other_number(runtime: object) -> None:
    found = fault(jobs=[job(estimated_runtime_s=runtime)])
    assert found.field == "jobs[0] (j1).estimated_runtime_s"
    assert found.allowed.startswith("a number of seconds above 0, at most 1e10")


def test_in_yaml_too_a_run_time_of_4_00_is_no_number(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "cluster: {nodes: [{id: n, gpus: 8}]}\nteams: [{id: t}]\n"
        "jobs:\n- {id: j, team: t, gpus: 1, estimated_runtime_s: 4:00}\n"
    )
    with pytest.raises(InputError, match=r"a\.yaml:4: jobs\[0\] \(j\)\.estimated_runtime_s: given '4:00'"):
        load_snapshot(file)


@pytest.mark.parametrize(
    ("weight", "shown"),
    [
        ("NaN", "'NaN'"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (-1, "-1"),
        (True, "true"),
    ],
)
def test_weights_are_finite_and_at_least_0(weight: object, shown: str) -> None:
    found = fault(teams=[{"id": "t", "weight": weight}])
    assert (found.field, found.wrong) == ("teams[0] (t).weight", f"given {shown}")
    assert found.allowed == "a number from 0 to 1,000,000"


def test_teams_may_all_have_weight_and_quota_0() -> None:
    teams = [{"id": "a", "weight": 0, "quota": {"gpus": 0}}, {"id": "b", "weight": 0, "quota": {"gpus": 0}}]
    assert [team.weight for team in load(teams=teams).teams] == [0, 0]


@pytest.mark.parametrize(
    ("parents", "wrong"),
    [
        ({"a": "b", "b": "a"}, "the teams form a circle: a -> b -> a"),
        ({"a": "a"}, "the teams form a circle: a -> a"),
        ({"a": "b", "b": "c", "c": "b"}, "the teams form a circle: b -> c -> b"),
        ({"a": "nobody"}, "unknown team 'nobody'"),
    ],
)
def test_teams_that_form_no_tree_are_refused_with_the_circle_spelled_out(parents: dict[str, str], wrong: str) -> None:
    assert fault(teams=[{"id": name, "parent": parent} for name, parent in parents.items()]).wrong == wrong


def test_a_chain_of_many_teams_is_a_tree() -> None:
    teams = [{"id": "t0"}] + [{"id": f"t{i}", "parent": f"t{i - 1}"} for i in range(1, 5000)]
    assert len(load(teams=teams).teams) == 5000


def test_quotas_that_cannot_all_hold_are_accepted_with_the_numbers() -> None:
    over = warnings(teams=[{"id": "a", "quota": {"gpus": 30}}, {"id": "b", "quota": {"gpus": 30}}])
    assert over == (
        "the quotas add up to 60 GPUs, the cluster has 32 healthy ones: "
        "nobody who runs inside its quota is displaced for the rest",
    )
    tree = [{"id": "p", "quota": {"gpus": 8}}, *({"id": c, "parent": "p", "quota": {"gpus": 8}} for c in "ab")]
    assert warnings(teams=tree) == ("the quotas below team p add up to 16 GPUs, its own quota is 8",)


def test_a_negative_quota_is_refused() -> None:
    found = fault(teams=[{"id": "a", "quota": {"gpus": -1}}])
    assert (found.field, found.wrong) == ("teams[0] (a).quota.gpus", "given -1")


@pytest.mark.parametrize(
    "shape",
    [
        {"gpus": 4096},
        {"gpus": 9, "topology": {"required": "node"}},
        {"gpus": 160, "gpus_per_node": 8, "topology": {"required": "rack"}},
    ],
)
def test_a_gang_that_no_domain_can_hold_is_not_refused_it_stays_queued(shape: dict[str, object]) -> None:
    assert load(jobs=[job(**shape)]).jobs[0].gpus == shape["gpus"]


@pytest.mark.parametrize(
    ("shape", "field", "wrong"),
    [
        ({"gpus": 10, "gpus_per_node": 8}, "gpus", "10 is not a multiple of gpus_per_node 8"),
        ({"gpus": 10, "gpus_per_task": 4}, "gpus", "10 is not a multiple of gpus_per_task 4"),
        ({"min_gpus": 16, "max_gpus": 8}, "min_gpus", "min_gpus 16 is above max_gpus 8"),
        ({"min_gpus": 0}, "min_gpus", "given 0"),
        ({"gpus": 64, "min_gpus": 8, "max_gpus": 32}, "gpus", "64 is outside min_gpus..max_gpus"),
        ({"gpus": 16, "gpus_per_node": 16}, "gpus_per_node", "given 16"),
        ({"gpus_per_node": 8, "gpus_per_task": 8}, "gpus_per_node", "given together with gpus_per_task"),
        ({"gpus": 16, "gpus_per_node": 8, "min_gpus": 4}, "min_gpus", "4 is not a multiple of gpus_per_node 8"),
        ({"slices": [{"gpus": 3, "within": "rack"}]}, "slices[0].gpus", "3 does not divide the gang's 8 GPUs"),
        (
            {"gpus": 16, "slices": [{"gpus": 8, "within": "rack"}, {"gpus": 3, "within": "node"}]},
            "slices[1].gpus",
            "3 does not divide the outer slice's 8 GPUs",
        ),
        (
            {"slices": [{"gpus": 8, "within": "node"}, {"gpus": 4, "within": "rack"}]},
            "slices[1].within",
            "'rack' is wider than the outer slice's node",
        ),
        ({"min_gpus": 6, "slices": [{"gpus": 4, "within": "rack"}]}, "slices[0].gpus", "4 does not divide min_gpus 6"),
        ({"slices": [{"gpus": 8, "within": "rack"}] * 4}, "slices", "given a list of 4"),
    ],
)
def test_a_shape_that_contradicts_itself_is_refused(shape: dict[str, object], field: str, wrong: str) -> None:
    found = fault(jobs=[job(**shape)])
    assert (found.field, found.wrong) == (f"jobs[0] (j1).{field}", wrong)


def test_an_id_given_twice_names_both_places_and_what_differs() -> None:
    assert told(jobs=[job(), job(), job(gpus=16)]) == [
        ("jobs[1] (j1).id", "the job id 'j1' is given twice, first at jobs[0], with the same keys and values"),
        ("jobs[2] (j1).id", "the job id 'j1' is given twice, first at jobs[0], with other values of gpus"),
    ]
    assert fault(teams=[{"id": "t"}, {"id": "t"}]).wrong == "the team id 't' is given twice"
    wrong = fault(cluster={"nodes": [node("n"), node("n")]}).wrong
    assert wrong == "the node id is given twice, first at cluster.nodes[0] (n)"


def test_a_node_in_two_racks_is_refused() -> None:
    found = fault(cluster={"levels": ["rack"], "nodes": [node("n1", domains={"rack": ["r1", "r2"]})]})
    assert (found.field, found.wrong) == ("cluster.nodes[0] (n1).domains.rack", "given a list of 2")


def test_levels_are_listed_once_and_without_node() -> None:
    assert told(cluster={"levels": ["rack", "rack", "node"], "nodes": []}) == [
        ("cluster.levels[1]", "the level 'rack' is listed twice"),
        ("cluster.levels[2]", "the level 'node' is listed"),
    ]


def test_a_node_may_have_no_domains_and_a_cluster_no_levels_and_no_nodes() -> None:
    assert load(cluster={"levels": ["rack"], "nodes": [node("n", domains={})]}).cluster.nodes[0].domains == {}
    assert load(cluster={"levels": [], "nodes": []}).cluster.nodes == ()


def test_a_level_that_the_cluster_does_not_have_is_refused_with_a_hint() -> None:
    found = fault(cluster={"levels": ["rack"], "nodes": [node("n", domains={"Rack": "r1"})]})
    assert (found.field, found.allowed) == (
        "cluster.nodes[0] (n).domains.Rack",
        "did you mean 'rack'? known levels: rack",
    )


@pytest.mark.parametrize("key", ["required", "preferred"])
@pytest.mark.parametrize("level", ["pod", "Rack", ""])
def test_an_unknown_topology_level_is_refused_with_the_known_ones(key: str, level: str) -> None:
    found = fault(jobs=[job(topology={key: level})])
    assert (found.field, found.wrong) == (f"jobs[0] (j1).topology.{key}", f"unknown level '{level}'")
    assert found.allowed.endswith("known levels: block, rack, node")


def test_a_preferred_level_no_narrower_than_the_required_one_is_said_to_have_no_effect() -> None:
    text = warnings(jobs=[job(topology={"required": "node", "preferred": "block"})])
    assert text == ("job j1: preferred block has no effect, as required node is no wider",)


def test_an_empty_topology_asks_for_nothing() -> None:
    assert load(jobs=[job(topology={})]).jobs[0].required is None


@pytest.mark.parametrize("saved", [20, 101])
def test_a_checkpoint_before_the_start_or_after_now_is_refused(saved: int) -> None:
    found = fault(jobs=[running(last_checkpoint_at=saved)])
    assert (found.field, found.wrong) == ("jobs[0] (j1).last_checkpoint_at", f"given {saved}")
    assert found.allowed == "from started_at, 50, to now, 100"


def test_nothing_has_started_or_been_submitted_after_now() -> None:
    assert fault(jobs=[running(started_at=101)]).field == "jobs[0] (j1).started_at"
    assert fault(jobs=[job(submitted_at=101)]).field == "jobs[0] (j1).submitted_at"


@pytest.mark.parametrize("deadline", [0, -5, 100])
def test_a_deadline_at_or_before_submission_is_refused(deadline: int) -> None:
    wrong = fault(jobs=[job(start_deadline_at=deadline)]).wrong
    assert wrong == f"the start deadline has passed at submission: {deadline}, submitted at 100"


def test_a_deadline_that_passed_while_the_job_waited_is_told() -> None:
    text = warnings(jobs=[job(submitted_at=0, start_deadline_at=60)])
    assert text == ("job j1: the start deadline 60 has passed, now is 100",)


@pytest.mark.parametrize(
    ("window", "field", "wrong"),
    [
        ({"start_at": 1000, "end_at": 1000}, "end_at", "end_at 1000 is not after start_at 1000"),
        ({"start_at": 2000, "end_at": 1000}, "end_at", "end_at 1000 is not after start_at 2000"),
        ({"nodes": ["ghost"]}, "nodes[0]", "unknown node 'ghost'"),
        ({"nodes": []}, "nodes", "a maintenance window names no nodes"),
        ({"gpus": 8}, "gpus", "belongs to a grant, this is a maintenance window"),
        ({"kind": "grant", "nodes": [], "teams": ["t"]}, "gpus", "is missing"),
        ({"kind": "grant", "nodes": [], "teams": ["t"], "gpus": 0}, "gpus", "given 0"),
        ({"kind": "grant", "nodes": [], "gpus": 8}, "teams", "names neither teams nor jobs"),
        ({"kind": "grant", "nodes": [], "gpus": 8, "teams": ["x"]}, "teams[0]", "unknown team 'x'"),
        ({"kind": "grant", "nodes": [], "gpus": 8, "jobs": ["x"]}, "jobs[0]", "unknown job 'x'"),
        (
            {"kind": "grant", "nodes": [], "gpus": 8, "teams": ["t"], "within": "b9"},
            "within",
            "'b9' is no domain or node",
        ),
    ],
)
def test_a_reservation_that_means_nothing_is_refused(window: dict[str, object], field: str, wrong: str) -> None:
    found = fault(reservations=[{"id": "r", "nodes": ["n1"], "start_at": 1000, "end_at": 5000, **window}])
    assert (found.field, found.wrong) == (f"reservations[0] (r).{field}", wrong)


@pytest.mark.parametrize(
    "name",
    [
        "日本語-🚀",
        "a\0b",
        "../../etc",
        "a/../b",
        "e\u0301",
        "é",
        "x" * 254,
        "",
        "a\u202eb",
        "a b",
        "-a",
        ".a",
        "a\n",
        "\ud800",
    ],
)
def test_ids_follow_one_stated_rule(name: str) -> None:
    found = fault(jobs=[job(name)])
    assert found.field.endswith("].id") or found.field.endswith(").id")
    assert found.allowed.startswith("text of letters (a-z, A-Z), digits and . _ - / : @ +, 1 to 253 characters")
    assert len(found.wrong) < 100
    assert all(c.isprintable() for c in str(found))


@pytest.mark.parametrize("name", ["a", "7", "x" * 253, "ns/pod-1.2_3:4@5+6", "k8s.io/rack", "a..b", "ada@example.org"])
def test_ids_that_follow_the_rule_are_kept_as_they_are(name: str) -> None:
    assert load(jobs=[job(name, user=name)]).jobs[0].id == name


def test_level_names_of_kubernetes_labels_pass() -> None:
    levels = ["topology.kubernetes.io/zone", "topology.kubernetes.io/rack"]
    cluster = {"levels": levels, "nodes": [node("n", domains=dict.fromkeys(levels, "a"))]}
    assert load(cluster=cluster, jobs=[job(topology={"required": levels[1]})]).jobs[0].required == levels[1]


def test_an_unknown_key_is_refused_by_name_with_the_nearest_known_one() -> None:
    found = fault(jobs=[job(gpuz=8)])
    assert (found.field, found.wrong) == ("jobs[0] (j1).gpuz", "unknown key 'gpuz'")
    assert found.allowed.startswith("did you mean 'gpus'? known keys: id, team, gpus")
    assert fault(jbos=[]).wrong == "unknown key 'jbos'"


def test_a_value_of_another_kind_is_refused() -> None:
    assert fault(jobs=5).allowed == "a list"
    assert fault(jobs=[5]).allowed.startswith("a mapping; known keys: id, team, gpus")
    assert fault(teams=[{"id": "t", "quota": 5}]).allowed == "a mapping; known keys: gpus, cpus, memory_gb"
    with pytest.raises(InputError, match="given a list of 0"):
        parse_snapshot([])  # type: ignore[arg-type]


def test_all_faults_are_told_at_once_also_those_of_references() -> None:
    found = told(
        teams=[{"id": "t", "weight": -1}, {"id": "u", "parent": "w"}],
        jobs=[job("a", gpus=0, team="x", priority="P9"), job("b", team="u", topology={"required": "pod"}), job("c")],
    )
    assert found == [
        ("teams[0] (t).weight", "given -1"),
        ("teams[1] (u).parent", "unknown team 'w'"),
        ("jobs[0] (a).team", "unknown team 'x'"),
        ("jobs[0] (a).gpus", "given 0"),
        ("jobs[0] (a).priority", "unknown priority class 'P9'"),
        ("jobs[1] (b).topology.required", "unknown level 'pod'"),
    ]


def test_beyond_200_faults_the_rest_is_counted() -> None:
    found = faults(jobs=[job(f"j{i}", gpus=0) for i in range(1000)])
    assert len(found) == 201
    assert found[-1].wrong == "800 more faults are not listed"


def test_in_memory_data_may_not_name_files_by_path() -> None:
    assert fault(profile="../../etc/passwd").wrong == "given the path '../../etc/passwd'"
    assert fault(cluster="/etc/hosts.json").wrong == "given the path '/etc/hosts.json'"


@needs_cases
@pytest.mark.parametrize("case", ["H01", "H02", "H08", "H20", "H21"])
def test_every_job_of_a_hostile_case_is_refused_without_a_crash(case: str) -> None:
    for given in give(case):
        if "reservation" in given:
            continue
        with pytest.raises(InputError) as caught:
            parse_snapshot(data(jobs=[given]), "case")
        assert all(len(entry.wrong) < 200 for entry in caught.value.faults)

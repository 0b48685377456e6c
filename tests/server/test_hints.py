"""What a few plain words of a request come to on the cluster at hand: `topology_hint`, and `elastic: true` alone."""

from __future__ import annotations

from typing import Any

import pytest

from optsched.files.document import Document
from optsched.files.known import Clock, Known
from optsched.files.report import Report, Scope
from optsched.files.snapshots import parse_snapshot
from optsched.server.hints import apply_hints, level_of
from optsched.values.cluster import Cluster
from optsched.values.profile import Profile

BOXES = {"name": "boxes", "levels": ["rack"], "groups": [{"counts": {"rack": 2, "node": 4}, "gpus": 8}]}
NVL = {
    "name": "nvl",
    "levels": ["block", "nvlink"],
    "groups": [{"counts": {"block": 2, "nvlink": 2, "node": 18}, "gpus": 4}],
}


def cluster(given: dict[str, Any]) -> Cluster:
    snapshot, _ = parse_snapshot({"cluster": given})
    return snapshot.cluster


def applied(where: dict[str, Any], hint: str | None = None, **job: Any) -> dict[str, Any]:
    """The keys of a job after its hints; raises InputError."""
    there = cluster(where)
    about = Known(0.0, Clock(), Profile())
    about.set_cluster(there, {node.id for node in there.nodes})
    plain: dict[str, Any] = dict(job)
    scope = Scope(Report(), Document(plain, "request"))
    apply_hints(plain, hint, scope, there, about)
    scope.report.raise_faults()
    return plain


@pytest.mark.parametrize(
    ("where", "hint", "level"),
    [
        (BOXES, "nvlink-domain", "node"),
        (BOXES, "rack", "rack"),
        (BOXES, "rack-domain", "rack"),
        (BOXES, "node", "node"),
        (BOXES, "block", None),
        (BOXES, "domain", None),
        (NVL, "nvlink-domain", "nvlink"),
        (NVL, "block-domain", "block"),
    ],
)
def test_a_hint_is_a_level_of_the_cluster(where: dict[str, Any], hint: str, level: str | None) -> None:
    assert level_of(hint, cluster(where)) == level


def test_a_gang_that_fits_is_only_told_where_it_would_like_to_be() -> None:
    assert applied(BOXES, "nvlink-domain", gpus=8) == {"gpus": 8, "topology": {"preferred": "node"}}
    assert applied(NVL, "nvlink-domain", gpus=64) == {"gpus": 64, "topology": {"preferred": "nvlink"}}


@pytest.mark.parametrize(
    ("where", "gpus", "piece", "level"),
    [
        # A box has 8 GPUs; 12 is divided by 6, and 20 by 5.
        (BOXES, 512, 8, "node"),
        (BOXES, 12, 6, "node"),
        (BOXES, 20, 5, "node"),
        # A rack of 18 nodes has 72 GPUs; of 512, 64 is the largest part that fits, of 144 it is 72.
        (NVL, 512, 64, "nvlink"),
        (NVL, 144, 72, "nvlink"),
    ],
)
def test_a_larger_gang_is_cut_into_the_largest_slices_that_divide_it_and_fit(
    where: dict[str, Any], gpus: int, piece: int, level: str
) -> None:
    assert applied(where, "nvlink-domain", gpus=gpus)["slices"] == [{"gpus": piece, "within": level}]


def test_a_prime_gang_is_not_cut_into_single_gpus() -> None:
    assert "slices" not in applied(BOXES, "nvlink-domain", gpus=13)


def test_elastic_alone_means_from_one_node_up_in_steps_of_one() -> None:
    found = applied(BOXES, gpus=32, checkpoint={"elastic": True})
    assert (found["min_gpus"], found["max_gpus"], found["gpus_per_node"]) == (8, 32, 8)
    with_sizes = applied(BOXES, gpus=32, min_gpus=16, max_gpus=32, checkpoint={"elastic": True})
    assert with_sizes["min_gpus"] == 16
    assert "gpus_per_node" not in with_sizes
    small = applied(BOXES, gpus=4, checkpoint={"elastic": True})
    assert "min_gpus" not in small

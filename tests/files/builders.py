"""A small valid snapshot as plain data, and short ways to change it and to read what is wrong with it."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from optsched.errors import Fault, InputError
from optsched.files import parse_scenario, parse_snapshot
from optsched.values.snapshot import Scenario, Snapshot

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "cases"

needs_cases = pytest.mark.skipif(not SHARED.is_dir(), reason="the cases do not lie beside this checkout")


def node(name: str, **keys: object) -> dict[str, object]:
    """A node of 8 GPUs."""
    return {"id": name, "gpus": 8, **keys}


def job(name: str = "j1", **keys: object) -> dict[str, object]:
    """A queued job of 8 GPUs of team t."""
    return {"id": name, "team": "t", "gpus": 8, **keys}


def running(name: str = "j1", **keys: object) -> dict[str, object]:
    """A job of 8 GPUs that runs on n0 since 50; now is 100."""
    started = {"state": "running", "submitted_at": 0, "started_at": 50, "placement": {"n0": 8}}
    return {"id": name, "team": "t", "gpus": 8, **started, **keys}


def data(**sections: object) -> dict[str, object]:
    """Now is 100; 4 nodes of 8 GPUs, n0 and n1 in rack r0, n2 and n3 in rack r1, all in block b0; one team, t."""
    nodes = [node(f"n{i}", domains={"block": "b0", "rack": f"r{i // 2}"}) for i in range(4)]
    whole: dict[str, object] = {
        "now": 100,
        "cluster": {"levels": ["block", "rack"], "nodes": nodes},
        "teams": [{"id": "t"}],
        "jobs": [],
    }
    return copy.deepcopy(whole | sections)


def load(**sections: object) -> Snapshot:
    """The snapshot, which must be right."""
    return parse_snapshot(data(**sections))[0]


def scenario(**sections: object) -> Scenario:
    """The scenario, which must be right."""
    return parse_scenario(data(**sections))[0]


def warnings(**sections: object) -> tuple[str, ...]:
    """The warnings of what must load."""
    return parse_scenario(data(**sections))[1]


def faults(**sections: object) -> list[Fault]:
    """All faults of what must not load."""
    with pytest.raises(InputError) as caught:
        parse_scenario(data(**sections), "case")
    return list(caught.value.faults)


def fault(**sections: object) -> Fault:
    """The one fault of what must not load."""
    found = faults(**sections)
    assert len(found) == 1, [str(entry) for entry in found]
    return found[0]


def told(**sections: object) -> list[tuple[str, str]]:
    """Field and wrong of all faults."""
    return [(entry.field, entry.wrong) for entry in faults(**sections)]

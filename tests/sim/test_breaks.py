"""What fails, how often and for how long: published rates come out of the draws, the same for a seed in any order."""

from __future__ import annotations

import math

import pytest

from optsched.engine.state import initial
from optsched.sim.breaks import Breaks
from optsched.sim.draws import below, exponential, uniform
from optsched.sim.failures import FAILURES, Failures
from optsched.sim.happenings import Fails, Part
from optsched.sim.settings import SimSettings
from optsched.topology.tree import build_tree
from optsched.values.snapshot import Snapshot
from tests.sim.made import cluster


def test_rates_are_those_that_were_published():
    """Llama 3: 419 in 54 days on 16,384 GPUs, 268 of them GPUs; RSC-1: 6.5 in 1,000 node-days, 7.9 h at 1,024 GPUs."""
    llama, rsc, small = FAILURES["llama3"], FAILURES["rsc1"], FAILURES["rsc1-small-jobs"]
    assert (llama.gpu + llama.process) * 54 * 24 * 16_384 == pytest.approx(419)
    assert llama.gpu / llama.process == pytest.approx(268 / 151)
    assert rsc.node * 1000 * 24 * 8 == pytest.approx(6.5)
    assert 1 / ((small.node + small.job) * 1024) == pytest.approx(7.9)


def test_a_draw_is_told_by_its_names_alone():
    """Numbers are even over [0, 1), exponential ones have their mean: within five standard errors of 4,000 draws."""
    drawn = [uniform(1, "x", i) for i in range(4000)]
    assert drawn == [uniform(1, "x", i) for i in range(4000)]
    assert uniform(2, "x", 0) != drawn[0] != uniform(1, "y", 0)
    assert sum(drawn) / 4000 == pytest.approx(0.5, abs=5 * math.sqrt(1 / 12 / 4000))
    mean = sum(exponential(60.0, 1, "e", i) for i in range(4000)) / 4000
    assert mean == pytest.approx(60.0, abs=5 * 60 / math.sqrt(4000))
    assert {below(3, 1, "b", i) for i in range(50)} == {0, 1, 2}


def test_a_cluster_fails_as_often_as_its_rates_say():
    """Nine nodes of 4 GPUs over 100,000 h at 0.001 a GPU-hour: 3,600 failures, within four standard deviations."""
    settings = SimSettings(seed=4, failures=Failures("made", gpu=0.001, domain_mtbf_h=500.0))
    ahead = []
    made = cluster()
    breaks = Breaks(build_tree(made), settings, lambda at, what: ahead.append((at, what)))
    breaks.set_off(initial(Snapshot(0.0, made, (), ())).nodes)
    counts = dict.fromkeys(Part, 0)
    end = 100_000 * 3_600_000
    while ahead:
        at, what = ahead.pop()
        assert isinstance(what, Fails)
        if at < end:
            counts[what.part] += 1
            breaks.next(what.part, what.name, 4, at, what.count + 1)
    assert counts[Part.GPU] == pytest.approx(3600, abs=4 * 60)
    assert counts[Part.DOMAIN] == pytest.approx(3 * 200, abs=4 * math.sqrt(600))
    assert counts[Part.NODE] == 0


def test_nine_in_ten_are_repaired_without_people():
    """Mean repair: 0.9 x 600 s + 0.1 x 12 h = 4,860 s; within five standard errors of 6,000 draws."""
    breaks = Breaks(build_tree(cluster()), SimSettings(), lambda at, what: None)
    drawn = [breaks.repair_ms("node", i) / 1000 for i in range(6000)]
    assert sum(drawn) / 6000 == pytest.approx(4860, abs=5 * 19_000 / math.sqrt(6000))
    assert sum(each < 3600 for each in drawn) / 6000 > 0.88

"""Whoever does the work, the answers are the same."""

from __future__ import annotations

import importlib.util
import warnings

import pytest

from optsched.clock import StoppedClock
from optsched.errors import UsageError
from optsched.values.ids import JobId
from optsched.whatif.answers import Answer, to_json
from optsched.whatif.ask import Asking, answer
from optsched.whatif.changes import AddLike, FailureRates
from optsched.whatif.executors import Executor, Here, Processes, Ray
from optsched.whatif.futures import FutureRules
from optsched.whatif.scenarios import Questions, Scenario
from tests.whatif.lab import lab

QUESTIONS = Questions(
    (JobId("eval"),), (), (Scenario("more", (AddLike("r1"),)), Scenario("none fail", (), FailureRates("none")))
)
ASKING = Asking(FutureRules(horizon_s=4 * 3600.0), futures=2)


def asked(executor: Executor) -> Answer:
    return answer(lab(), QUESTIONS, ASKING, executor, lambda stage, share: None)


def test_processes_find_what_one_alone_finds() -> None:
    assert asked(Processes(2)) == asked(Here(StoppedClock()))


def test_all_scenarios_are_answered_in_order() -> None:
    found = asked(Here(StoppedClock()))
    assert [each.name for each in found.scenarios] == ["as it is", "more", "none fail"]
    starts = [each.futures.jobs["eval"].start_s.high for each in found.scenarios if each.futures]
    # A further rack is free at once; without it eval waits, for minutes at least.
    assert starts[1] is not None
    assert starts[1] <= 60
    assert starts[0] is None or starts[0] > 60
    assert to_json(found) == to_json(asked(Here(StoppedClock())))


def test_how_far_it_is_is_told() -> None:
    told: list[float] = []
    answer(lab(), QUESTIONS, ASKING, Here(StoppedClock()), lambda stage, share: told.append(share))
    assert told == sorted(told)
    assert len(told) == 9


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_its_executor_says_how_to_get_it() -> None:
    with pytest.raises(UsageError, match=r"pip install 'optsched\[ray\]'"):
        Ray()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_local_ray_finds_what_one_alone_finds() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = asked(Ray())
    assert found == asked(Here(StoppedClock()))

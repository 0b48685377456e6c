"""What a round has to say of a long queue is told bit by bit, from one round to the next."""

from __future__ import annotations

from dataclasses import replace

from optsched.engine.events import Tick
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.server import planned as telling
from optsched.server.planned import planned
from optsched.server.tally import Tally
from optsched.values.job import JobState
from optsched.values.plan import Plan, RoundInfo, Source, Status, Waiting
from optsched.values.snapshot import Snapshot
from tests.builders import job, nodes, snapshot, team


def all_wait(given: Snapshot) -> Plan:
    """A plan that starts nobody, and says of everybody why."""
    queued = tuple(Waiting(each.id, "no_room", "full") for each in given.jobs)
    info = RoundInfo(Source.GREEDY, Status.FEASIBLE, None, None, 0.0, 0.0, len(queued), len(queued))
    return Plan(info, queued=queued)


def unseen(state: State) -> int:
    """How many jobs nobody has told anything yet."""
    return sum(each.unseen for each in state.jobs.values())


def test_of_a_long_queue_the_next_round_tells_the_rest(monkeypatch):
    """1,700 jobs, 500 with a decision and two parts of 500 after it: 200 are left for the next round, which is due."""
    monkeypatch.setattr(telling, "MOST_PARTS", 2)
    many = [job(f"j{number}").gang(8) for number in range(1700)]
    state = initial(snapshot(nodes("a", 8), team("t"), *many))
    state = replace(state, jobs={name: replace(each, unseen=True) for name, each in state.jobs.items()})
    for left, due in ((200, True), (0, False)):
        found = planned(state, all_wait)
        assert found is not None
        for event in (found.decided, *found.rest):
            state = step(state, event, 1.0).state
        assert (unseen(state), state.due) == (left, due)
        # The plan that is kept tells of all of them.
        assert found.plan.count(b'"no_room"') == 1700
    assert planned(state, all_wait) is None


def test_jobs_are_counted_as_if_they_were_counted_anew():
    """Over some hundred changes, of which each touches one chunk of several."""
    many = [job(f"j{number}").gang(8) for number in range(600)]
    state = step(initial(snapshot(nodes("a", 8), *many)), Tick(), 1.0).state
    tally = Tally(lambda record: record.state.value)
    for number, (name, record) in enumerate(list(state.jobs.items())):
        if number % 7 == 0:
            ended = replace(record, state=JobState.FAILED)
            state = replace(state, jobs={key: each for key, each in state.jobs.items() if key != name})
            state = replace(state, ended={**state.ended, name: ended})
            assert tally.of(state.jobs, state.ended) == {
                "queued": len(state.jobs),
                "failed": len(state.ended),
            }

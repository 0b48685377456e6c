"""What is checked after every event can fail: each invariant, broken on purpose, is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from optsched.engine import events as ev
from optsched.engine.commands import Command, Verb
from optsched.engine.draft import Step
from optsched.engine.events import Cause, Decided
from optsched.engine.log import LogEntry, rebuild
from optsched.engine.state import Booking, Change, Claim, JobRecord, Launch, State, Stop, StopCause
from optsched.engine.step import step
from optsched.values.ids import GpuType, JobId, LevelName, NodeId
from optsched.values.job import JobState, Slice
from optsched.values.plan import Plan, RoundInfo, Source, Start, Status
from optsched.values.profile import PreemptTokens
from tests.builders import job, racks, snapshot, team
from tests.engine.driven import Driven
from tests.engine.followed import Followed
from tests.engine.invariants import faults_of
from tests.engine.promises import broken_promises
from tests.engine.world import World

A, B, J, V, Q = NodeId("a"), NodeId("b"), JobId("j"), JobId("v"), JobId("q")


def good() -> State:
    """j on a and b of rack r1, v on c, q waits for a whole node; CPUs and memory are just enough."""
    there = [replace(each, cpus=64.0, memory_gb=512.0) for each in racks(8, r1="a b", r2="c")]
    j = job("j").gang(16).per_node(8).within("rack").cpus(128).memory(1024).rigid().running(a=8, b=8)
    v = job("v").gang(8).team("o").cpus(64).memory(512).running(c=8)
    return Driven(snapshot(there, team("t").quota(24), team("o").quota(8), j, v, job("q").gang(8))).settle().state


def with_job(given: State, name: JobId, **fields: object) -> State:
    """The state with something else in a record; `job_*` fields go to the job in it."""
    record = given.jobs[name]
    mine = {key[4:]: value for key, value in fields.items() if key.startswith("job_")}
    rest = {key: value for key, value in fields.items() if not key.startswith("job_")}
    return replace(given, jobs={**given.jobs, name: replace(record, job=replace(record.job, **mine), **rest)})


def booked(state: State, node: NodeId, *bookings: Booking) -> State:
    """The state with other bookings on a node."""
    return replace(state, nodes={**state.nodes, node: replace(state.nodes[node], bookings=bookings)})


def having(state: State, node: NodeId, **fields: object) -> State:
    """The state with a node that is described otherwise."""
    record = state.nodes[node]
    return replace(state, nodes={**state.nodes, node: replace(record, node=replace(record.node, **fields))})


def less(state: State, name: JobId) -> State:
    """The state without a job."""
    return replace(state, jobs={key: record for key, record in state.jobs.items() if key != name})


MINE = Booking(J, 1, 8, 64.0, 512.0)
ROOM = Claim(Change.START, {A: 8}, 0.0)

BROKEN: dict[str, tuple[Callable[[State], State], str]] = {
    "a GPU with two owners": (
        lambda s: booked(s, A, Booking(J, 1, (0, 1)), Booking(V, 1, (1, 2))),
        "GPUs [1] have two owners",
    ),
    "more than a node reports": (lambda s: booked(s, A, MINE, Booking(V, 1, 1)), "a: 9 of 8 GPUs are booked"),
    "more CPUs than a node has": (lambda s: booked(s, A, replace(MINE, cpus=72.0)), "a: 72 of 64 CPUs"),
    "more memory than a node has": (lambda s: booked(s, A, replace(MINE, memory_gb=520.0)), "a: 520 of 512 GB"),
    "room that runs and is promised": (
        lambda s: replace(with_job(s, Q, claim=ROOM), claims=(Q,)),
        "8 GPUs run and 8 are promised",
    ),
    "a booking that its job does not know": (lambda s: with_job(s, J, booked_on=frozenset({B})), "does not know of it"),
    "half a gang": (lambda s: booked(s, B), "j runs on {'a': 8, 'b': 8}, and has {'a': 8}"),
    "a gang of the wrong size": (lambda s: with_job(s, J, job_max_gpus=8, job_min_gpus=8), "not 8 to 8"),
    "a gang outside its rack": (lambda s: having(s, B, domains={LevelName("rack"): "r2"}), "leaves its rack"),
    "a gang of two types": (lambda s: having(s, B, gpu_type=GpuType("a100")), "runs on ['', 'a100']"),
    "a gang cut otherwise": (lambda s: with_job(s, J, job_gpus_per_node=4), "comes in 4"),
    "a slice in two racks": (
        lambda s: with_job(s, J, job_slices=(Slice(16, LevelName("node")),)),
        "slices of 16 within node",
    ),
    "a placement of who waits": (lambda s: with_job(s, Q, job_placement={A: 8}), "waits, and has a placement"),
    "a claim that nobody knows": (lambda s: with_job(s, Q, claim=ROOM), "has a claim that nobody knows"),
    "a stop without stopping": (lambda s: with_job(s, V, stop=Stop(StopCause.OPERATOR, 9.0)), "its stop is"),
    "a launch of who runs": (lambda s: with_job(s, V, launch=Launch(True, 0.0)), "its launch is"),
    "an ended job among the live": (
        lambda s: booked(with_job(s, V, state=JobState.FAILED, booked_on=frozenset()), NodeId("c")),
        "has ended and is listed as live",
    ),
    "a lost job": (lambda s: less(s, Q), "q is lost"),
    "a job listed twice": (lambda s: replace(s, ended={Q: s.jobs[Q]}), "q is listed twice"),
    "a run that was skipped": (lambda s: with_job(s, Q, job_run=2), "from run 0 to 2"),
    "a run that went back": (lambda s: booked(with_job(s, V, job_run=0), NodeId("c")), "from run 1 to 0"),
}


def told(before: State, after: State) -> str:
    """What is found wrong with a step between two states."""
    return "; ".join(faults_of(before, Step(after)))


def test_a_good_state_has_no_faults() -> None:
    """Else what follows shows nothing."""
    assert told(good(), good()) == ""


@pytest.mark.parametrize("what", BROKEN)
def test_a_state_that_cannot_be_is_told(what: str) -> None:
    """By what is wrong with it."""
    breaks, says = BROKEN[what]
    before = good()
    assert says in told(before, breaks(before))


def test_a_run_without_a_claim_is_told() -> None:
    """v, which runs, is at its second run, and nobody decided so."""
    before = good()
    after = booked(with_job(before, V, job_run=2), NodeId("c"), Booking(V, 2, 8, 64.0, 512.0))
    assert "started run 2 without a claim" in told(before, after)


def test_room_that_vanishes_is_told() -> None:
    """q had a claim, and neither started nor said that it gives it back."""
    before = replace(with_job(good(), Q, claim=Claim(Change.START, {NodeId("c"): 8}, 0.0)), claims=(Q,))
    assert "the room of q vanished" in told(before, good())


def test_a_job_that_comes_back_from_its_end_is_told() -> None:
    """Completed, and now it waits again."""
    before = replace(less(good(), Q), ended={Q: replace(good().jobs[Q], state=JobState.COMPLETED)})
    assert "was completed and is queued" in told(before, good())


def stopped(before: State, name: JobId, *beneficiaries: JobId, **fields: object) -> State:
    """The state in which a job is told to stop for others."""
    stop = Stop(StopCause.PLAN, before.now + 120, beneficiaries)
    return with_job(before, name, state=JobState.PREEMPTING, stop=stop, **fields)


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (lambda s: stopped(s, J, Q), "is not preemptible and was stopped"),
        (lambda s: stopped(s, V), "was stopped for nobody"),
        (lambda s: stopped(s, V, Q), "was stopped for q, which gets nothing"),
        (lambda s: stopped(s, V, Q), "o ran 8 GPUs, lost 8 to others, and 8 are guaranteed to it"),
        (lambda s: replace(stopped(s, V, Q), stopped=((s.now, 8),)), "8 GPUs were stopped within an hour, 4 are"),
    ],
)
def test_a_stop_that_must_not_be_is_told(after: Callable[[State], State], says: str) -> None:
    """Of what is not preemptible, for nobody, below a guarantee, beyond the limit of the cluster."""
    before = good()
    before = replace(before, profile=replace(before.profile, max_stopped_gpus_per_h=4))
    assert says in told(before, after(before))


def test_a_stop_before_its_time_and_one_with_room_elsewhere_are_told() -> None:
    """v has run for 3600 s of 7200 that nobody is stopped before; and if it goes for others it is given nothing itself,
    or stops would go round.
    """
    before = good()
    before = replace(before, profile=replace(before.profile, min_runtime_s=7200.0))
    assert "v was stopped after 3600 s" in told(before, stopped(before, V, Q))
    moved = replace(stopped(before, V, Q, claim=ROOM), claims=(V,))
    assert "is given room by the same plan" in told(before, moved)


def test_a_stop_beyond_the_rate_of_a_job_is_told() -> None:
    """Its bucket is empty."""
    before = good()
    before = replace(before, profile=replace(before.profile, preempt_tokens=PreemptTokens(per_h=1.0, burst=2.0)))
    before = with_job(before, V, tokens=0.0, tokens_at=before.now)
    assert "was stopped beyond its rate" in told(before, stopped(before, V, Q))


def decided(state: State, cause: Cause, *starts: Start, **plan: object) -> Decided:
    """A decision to start some jobs."""
    info = RoundInfo(Source.GREEDY, Status.FEASIBLE, None, None, 0.0, 0.0, 1, 1)
    return Decided(Plan(info, starts=starts, **plan), state.version, cause)


def waiting() -> State:
    """big is to have a and b when w has left b, at 3600; long would stay for two hours."""
    there = racks(8, r1="a b")
    w = job("w").gang(8).rigid().runs_for(7200).running(b=8, since=3600)
    big = job("big").gang(16).per_node(8).rigid()
    return Driven(snapshot(there, w, big, job("long").gang(8).rigid().runs_for(7200))).settle().state


def test_backfill_that_delays_a_reservation_is_told() -> None:
    """long on a, which is held for big until 3600."""
    state = waiting()
    assert [room.nodes for room in state.reserved] == [("a",)]
    event = decided(state, Cause.ROUND, Start(JobId("long"), {A: 8}, ""), reservations=state.reserved)
    found = step(state, event, state.now)
    assert "big is to start at 3600 on a, and ['long'] will still be there" in broken_promises(
        state, found.state, event
    )


def test_a_repair_with_what_is_held_for_another_is_told() -> None:
    """The same, called a repair."""
    state = waiting()
    event = decided(state, Cause.REPAIR, Start(JobId("long"), {A: 8}, ""))
    found = step(state, event, state.now)
    assert broken_promises(state, found.state, event) == ["long is repaired with ['a'], held for big"]


def test_a_preemption_of_no_use_is_told() -> None:
    """v was stopped for q: as long as q neither starts nor gives up its room, it is waited for; an end of q is one."""
    before = good()
    followed = Followed()
    followed.note_stops(before, stopped(before, V, Q))
    followed.note_ends(Step(before))
    assert followed.waiting == [(V, {Q: 0})]
    followed.note_ends(Step(with_job(before, Q, state=JobState.CANCELLED)))
    assert followed.waiting == []


def test_agents_notice_when_they_are_asked_to_run_two_things_on_one_gpu() -> None:
    """They keep books of their own: 8 GPUs, and 8 more."""
    world = World(0)
    node = NodeId(world.names[0])
    world._obey(Command(Verb.START, 1, node, J, 1, gpus=8))
    with pytest.raises(AssertionError, match="is given 16 GPUs"):
        world._obey(Command(Verb.START, 1, node, V, 1, gpus=8))


def test_agents_notice_when_a_job_runs_twice() -> None:
    """Run 2 of j is asked for while run 1 works on another node."""
    world = World(0)
    first, other = NodeId(world.names[0]), NodeId(world.names[1])
    world._obey(Command(Verb.START, 1, first, J, 1, gpus=8))
    with pytest.raises(AssertionError, match="while an older run works"):
        world._obey(Command(Verb.RESERVE, 1, other, J, 2, gpus=8))


def test_a_log_with_an_entry_missing_leads_elsewhere() -> None:
    """So that a log that rebuilds the state says something."""
    start = good()
    log = [LogEntry(1, 1.0, ev.Cancel(Q)), LogEntry(2, 2.0, ev.Cordon(A))]
    assert rebuild(start, log) != rebuild(start, log[:1])
    assert isinstance(rebuild(start, log).record(Q), JobRecord)

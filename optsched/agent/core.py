"""The agent's core: one function, `step(state, message, now) -> state, actions`.

It reads no clock, does no I/O and starts nothing, so that every order of messages can be tried without processes. The
shell keeps three promises: it stores the state before it does what the actions ask or says what is pending; it answers
Launch with Launched or NotLaunched, and after Launched at some time with Ended; and it does so again after a restart,
for what it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from optsched.agent import messages as m
from optsched.agent.draft import Draft, choose, dealt, end_run, know, repeat_end, say_end, settle
from optsched.agent.exits import classify, told
from optsched.agent.values import (
    AT_WORK,
    TOLD_TO_END,
    UNBEGUN,
    Key,
    Outcome,
    Phase,
    Probed,
    Run,
    Said,
    Saved,
    State,
)

Command = m.Reserve | m.Start | m.Signal | m.Kill | m.Release

MOST_WAITING = 64
"""Checkpoints of one run that wait for an acknowledgement; of more the oldest are of no use any more."""


CAUSE_FIRST_S = 2.0
"""When a machine fails, tasks of its gang on other nodes fail with it. That is told so much later, so that the
scheduler hears the cause first, and the job is not blamed for it."""


def step(state: State, message: m.Message, now: float) -> tuple[State, tuple[m.Action, ...]]:
    """Return what the state becomes, and what is to be done. `now` is in seconds since 1970."""
    draft = Draft(state, now, [])
    if isinstance(message, Command):
        if not _fenced(draft, message):
            _COMMANDS[type(message)](draft, message)
    else:
        _OTHERS[type(message)](draft, message)
    return draft.state, tuple(draft.actions)


def next_due(state: State) -> float | None:
    """Return when time alone changes something: a grace ends, a failure is told. None: never."""
    kills = (run.kill_at for run in state.runs.values() if run.phase is Phase.STOPPING)
    words = (run.say_at for run in state.runs.values())
    return min((at for at in (*kills, *words) if at is not None), default=None)


def idle_gpus(state: State) -> tuple[int, ...]:
    """Return the GPUs that no run has, and that may be used."""
    taken = {gpu for run in state.runs.values() for gpu in run.gpus}
    return tuple(gpu for gpu in range(state.gpus) if gpu not in taken and gpu not in state.bad)


# Fencing


def _fenced(draft: Draft, command: Command) -> bool:
    """Refuse a command of an older epoch, or for an older run than is known of its job."""
    state, key = draft.state, command.key
    if command.epoch < state.epoch:
        draft.say(key, Outcome.FENCED, f"epoch {command.epoch} is over, {state.epoch} is in force")
        return True
    if command.epoch > state.epoch:
        draft.state = replace(state, epoch=command.epoch)
    newest = state.newest.get(key.job, 0)
    if key.run >= newest:
        return False
    draft.say(key, Outcome.FENCED, f"run {key.run} is over, {newest} is known")
    if not isinstance(command, m.Reserve | m.Start) and key not in state.runs:
        # To end what is not there is done already, and somebody may wait for that word.
        draft.say(key, Outcome.RELEASED)
    return True


# Commands


def _reserve(draft: Draft, command: m.Reserve) -> None:
    state, key = draft.state, command.key
    run = state.runs.get(key)
    if run is not None:
        if run.phase not in (Phase.RESERVING, Phase.ENDED):
            draft.say(key, Outcome.RESERVED, port=run.port)
        elif run.phase is Phase.ENDED:
            repeat_end(draft, run)
        return
    if state.newest.get(key.job, 0) == key.run:
        draft.say(key, Outcome.REFUSED, "that run is over here")
        return
    know(draft, key)
    gpus, why = choose(draft.state, command)
    if why:
        draft.say(key, Outcome.REFUSED, why)
        return
    draft.put(Run(key, Phase.RESERVING, gpus))
    settle(draft)


def _start(draft: Draft, command: m.Start) -> None:
    run = draft.state.runs.get(command.key)
    if run is None:
        know(draft, command.key)
        draft.say(command.key, Outcome.REFUSED, "nothing was set aside for it")
    elif run.phase is Phase.RUNNING:
        draft.say(run.key, Outcome.STARTED)
    elif run.phase is Phase.ENDED:
        repeat_end(draft, run)
    elif run.phase is Phase.RESERVED:
        spec, why = dealt(run, command.spec)
        if why:
            draft.do(m.FreePort(run.key))
            draft.put(replace(run, phase=Phase.ENDED, port=0))
            draft.say(run.key, Outcome.REFUSED, why)
            draft.say(run.key, Outcome.RELEASED)
            return
        draft.put(replace(run, phase=Phase.STARTING, start=spec))
        draft.do(m.Launch(run.key))


def _signal(draft: Draft, command: m.Signal) -> None:
    run = _held(draft, command.key)
    if run is None:
        return
    if run.phase in UNBEGUN:
        end_run(draft, run, "")
        return
    kill_at = draft.now + command.grace_s
    if run.kill_at is not None:
        kill_at = min(kill_at, run.kill_at)
    if run.phase in (Phase.STARTING, Phase.RUNNING):
        if run.phase is Phase.RUNNING:
            draft.do(m.SignalTasks(run.key))
        draft.put(replace(run, phase=Phase.STOPPING, kill_at=kill_at))
    elif run.phase is Phase.STOPPING:
        draft.put(replace(run, kill_at=kill_at))


def _kill(draft: Draft, command: m.Kill | m.Release) -> None:
    run = _held(draft, command.key)
    if run is not None:
        end_run(draft, run, "")


def _held(draft: Draft, key: Key) -> Run | None:
    """Return a run that is to end, where something of it is left; else say that it is released."""
    know(draft, key)
    run = draft.state.runs.get(key)
    if run is None or run.phase is Phase.ENDED:
        if run is not None:
            draft.put(replace(run, say_at=None))
        draft.say(key, Outcome.RELEASED)
        return None
    return run


def _probe(draft: Draft, command: m.Probe) -> None:
    if command.epoch >= draft.state.epoch:
        draft.do(m.RunProbe(command.probe, idle_gpus(draft.state)))


# What the scheduler says otherwise


def _registered(draft: Draft, message: m.Registered) -> None:
    draft.state = replace(draft.state, epoch=max(draft.state.epoch, message.epoch))


def _acked(draft: Draft, message: m.Acked) -> None:
    """What was said need not be said again; a run that is known to be released is forgotten."""
    said = next((each for each in draft.state.outbox if each.id == message.id), None)
    if said is None:
        return
    draft.state = replace(draft.state, outbox=tuple(e for e in draft.state.outbox if e.id != message.id))
    if isinstance(said, Said) and said.outcome is Outcome.RELEASED:
        run = draft.state.runs.get(said.key)
        if run is not None and run.phase is Phase.ENDED:
            draft.drop(said.key)
            draft.do(m.Forget(said.key))


# What the shell finds


def _port_held(draft: Draft, message: m.PortHeld) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or run.phase not in UNBEGUN:
        draft.do(m.FreePort(message.key))
    elif message.port == 0:
        draft.drop(run.key)
        draft.say(run.key, Outcome.REFUSED, "no port is free here")
    elif run.phase is Phase.RESERVING:
        draft.put(replace(run, phase=Phase.RESERVED, port=message.port))
        draft.say(run.key, Outcome.RESERVED, port=message.port)


def _launched(draft: Draft, message: m.Launched) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or run.phase is Phase.ENDED:
        draft.do(m.KillTasks(message.key))
    elif run.phase is Phase.STARTING:
        draft.put(replace(run, phase=Phase.RUNNING))
        draft.say(run.key, Outcome.STARTED)
    elif run.phase is Phase.STOPPING:
        draft.do(m.SignalTasks(run.key))
    elif run.phase is Phase.KILLING:
        draft.do(m.KillTasks(run.key))


def _not_launched(draft: Draft, message: m.NotLaunched) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or run.phase not in AT_WORK:
        return
    draft.put(replace(run, phase=Phase.ENDED, kill_at=None))
    if run.phase is Phase.STARTING:
        draft.say(run.key, message.outcome, message.why, exit_code=message.exit_code, rank=message.rank)
    draft.say(run.key, Outcome.RELEASED)
    settle(draft)


def _ended(draft: Draft, message: m.Ended) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or run.phase not in AT_WORK:
        return
    end = message.end
    draft.put(replace(run, phase=Phase.ENDED, kill_at=None))
    if run.phase is Phase.STOPPING and run.says_done and end.first_bad is None and not end.lost:
        draft.say(run.key, Outcome.OK)
    elif run.phase in TOLD_TO_END:
        say_end(draft, run, Outcome.RELEASED, told(end), end)
    else:
        outcome, why = classify(end)
        if outcome is Outcome.FAILED and run.start is not None and run.start.node_count > 1:
            draft.put(replace(run, phase=Phase.ENDED, kill_at=None, end=end, say_at=draft.now + CAUSE_FIRST_S))
        else:
            say_end(draft, run, outcome, why, end)
            if outcome is not Outcome.OK:
                draft.say(run.key, Outcome.RELEASED)
    settle(draft)


def _job_said(draft: Draft, message: m.JobSaid) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or message.read <= run.reports_read:
        return
    draft.put(replace(run, reports_read=message.read, says_done=run.says_done or message.done))
    for each in message.checkpoints[-MOST_WAITING:]:
        mine = [e.id for e in draft.state.outbox if isinstance(e, Saved) and e.key == run.key]
        if len(mine) >= MOST_WAITING:
            draft.state = replace(draft.state, outbox=tuple(e for e in draft.state.outbox if e.id != mine[0]))
        saved = Saved(0, run.key, each.version, each.taken_at, each.tier, each.bytes, each.step)
        draft.pend(lambda number, saved=saved: replace(saved, id=number))  # type: ignore[misc]


def _probe_ended(draft: Draft, message: m.ProbeEnded) -> None:
    outbox = tuple(each for each in draft.state.outbox if not isinstance(each, Probed))
    draft.state = replace(draft.state, outbox=outbox)
    draft.pend(lambda number: Probed(number, message.probe, message.ok, message.why))


def _inventory(draft: Draft, message: m.Inventory) -> None:
    draft.state = replace(draft.state, gpus=message.gpus, bad=message.bad)
    settle(draft)


def _tick(draft: Draft, message: m.Tick) -> None:
    for run in list(draft.state.runs.values()):
        if run.phase is Phase.STOPPING and run.kill_at is not None and run.kill_at <= draft.now:
            end_run(draft, run, "")
        elif run.say_at is not None and run.end is not None and run.say_at <= draft.now:
            draft.put(replace(run, say_at=None))
            outcome, why = classify(run.end)
            say_end(draft, run, outcome, why, run.end)
            draft.say(run.key, Outcome.RELEASED)


_COMMANDS: dict[type, Callable[[Draft, Any], None]] = {
    m.Reserve: _reserve,
    m.Start: _start,
    m.Signal: _signal,
    m.Kill: _kill,
    m.Release: _kill,
}
_OTHERS: dict[type, Callable[[Draft, Any], None]] = {
    m.Registered: _registered,
    m.Probe: _probe,
    m.Acked: _acked,
    m.PortHeld: _port_held,
    m.Launched: _launched,
    m.NotLaunched: _not_launched,
    m.Ended: _ended,
    m.JobSaid: _job_said,
    m.ProbeEnded: _probe_ended,
    m.Inventory: _inventory,
    m.Tick: _tick,
}

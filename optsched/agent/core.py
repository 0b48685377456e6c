"""The agent's core: one function, `step(state, message, now) -> state, actions`.

It reads no clock, does no I/O and starts nothing, so that every order of messages can be tried without processes. The
shell keeps three promises: it stores the state before it does what the actions ask or says what is pending; it answers
Launch with Launched or NotLaunched, and after Launched at some time with Ended; and it does so again after a restart,
for what it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from optsched.agent import messages as m
from optsched.agent.exits import classify, told
from optsched.agent.values import (
    AT_WORK,
    MOST_NEWEST,
    TOLD_TO_END,
    UNBEGUN,
    Key,
    Outcome,
    Pending,
    Phase,
    Probed,
    Run,
    RunEnd,
    Said,
    Saved,
    StartSpec,
    State,
    TaskEnd,
)

Command = m.Reserve | m.Start | m.Signal | m.Kill | m.Release

MOST_WAITING = 64
"""Checkpoints of one run that wait for an acknowledgement; of more the oldest are of no use any more."""


@dataclass(slots=True)
class _Draft:
    """A step in the making."""

    state: State
    now: float
    actions: list[m.Action]

    def do(self, *actions: m.Action) -> None:
        self.actions += actions

    def put(self, run: Run) -> None:
        self.state = replace(self.state, runs={**self.state.runs, run.key: run})

    def drop(self, key: Key) -> None:
        self.state = replace(self.state, runs={k: run for k, run in self.state.runs.items() if k != key})

    def know(self, key: Key) -> None:
        """Note that a run of a job exists; older ones are history."""
        newest = self.state.newest
        if key.run > newest.get(key.job, 0):
            kept = {job: run for job, run in newest.items() if job != key.job} | {key.job: key.run}
            while len(kept) > MOST_NEWEST:
                kept.pop(next(iter(kept)))
            self.state = replace(self.state, newest=kept)

    def pend(self, make: Callable[[int], Pending]) -> None:
        number = self.state.next_id
        self.state = replace(self.state, next_id=number + 1, outbox=(*self.state.outbox, make(number)))

    def say(self, key: Key, outcome: Outcome, why: str = "", **more: Any) -> None:
        """Report; what waits already in the same words is not said twice."""
        said = Said(0, key, outcome, self.now, why, **more)
        for each in self.state.outbox:
            if isinstance(each, Said) and replace(each, id=0, at=self.now) == said:
                return
        self.pend(lambda number: replace(said, id=number))


def step(state: State, message: m.Message, now: float) -> tuple[State, tuple[m.Action, ...]]:
    """Return what the state becomes, and what is to be done. `now` is in seconds since 1970."""
    draft = _Draft(state, now, [])
    if isinstance(message, Command):
        if not _fenced(draft, message):
            _COMMANDS[type(message)](draft, message)
    else:
        _OTHERS[type(message)](draft, message)
    return draft.state, tuple(draft.actions)


def next_due(state: State) -> float | None:
    """Return when time alone changes something: the next grace that ends. None: never."""
    return min(
        (r.kill_at for r in state.runs.values() if r.phase is Phase.STOPPING and r.kill_at is not None), default=None
    )


def idle_gpus(state: State) -> tuple[int, ...]:
    """Return the GPUs that no run has, and that may be used."""
    taken = {gpu for run in state.runs.values() for gpu in run.gpus}
    return tuple(gpu for gpu in range(state.gpus) if gpu not in taken and gpu not in state.bad)


# Fencing


def _fenced(draft: _Draft, command: Command) -> bool:
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


def _reserve(draft: _Draft, command: m.Reserve) -> None:
    state, key = draft.state, command.key
    run = state.runs.get(key)
    if run is not None:
        if run.phase not in (Phase.RESERVING, Phase.ENDED):
            draft.say(key, Outcome.RESERVED, port=run.port)
        elif run.phase is Phase.ENDED:
            _repeat_end(draft, run)
        return
    if state.newest.get(key.job, 0) == key.run:
        draft.say(key, Outcome.REFUSED, "that run is over here")
        return
    draft.know(key)
    for older in [each for each in state.runs.values() if each.key.job == key.job]:
        # A newer run of the job is there, so nobody wants the older one any more.
        _end(draft, older, "a newer run of the job was placed here")
    gpus, why = _choose(draft.state, command)
    if why:
        draft.say(key, Outcome.REFUSED, why)
        return
    draft.put(Run(key, Phase.RESERVING, gpus))
    _settle(draft)


def _choose(state: State, command: m.Reserve) -> tuple[tuple[int, ...], str]:
    """Return the GPUs for a run, or why it cannot have them. Those of a run that is being ended may be waited for."""
    going = {gpu: run for run in state.runs.values() for gpu in run.gpus if run.phase is not Phase.ENDED}
    ended = {
        gpu: run
        for run in state.runs.values()
        for gpu in run.gpus
        if run.phase is Phase.ENDED and not _is_out(state, run)
    }
    firm = {gpu: run for gpu, run in {**ended, **going}.items() if run.phase is not Phase.KILLING}
    if not command.gpus:
        free = [gpu for gpu in range(state.gpus) if gpu not in firm and gpu not in state.bad]
        free.sort(key=lambda gpu: (gpu in going, gpu))
        if len(free) < command.count:
            return (), f"{command.count} GPUs are asked for, {len(free)} of {state.gpus} are free"
        return tuple(sorted(free[: command.count])), ""
    for gpu in command.gpus:
        if not 0 <= gpu < state.gpus:
            return (), f"GPU {gpu} is asked for, there are {state.gpus}"
        if gpu in state.bad:
            return (), f"GPU {gpu} must not be used"
        if gpu in firm:
            other = firm[gpu].key
            return (), f"GPU {gpu} is set aside for run {other.run} of {other.job}"
    return command.gpus, ""


def _is_out(state: State, run: Run) -> bool:
    """Return whether the word that a run is released is on its way, so that its GPUs may be given away again."""
    return any(isinstance(e, Said) and e.key == run.key and e.outcome is Outcome.RELEASED for e in state.outbox)


def _settle(draft: _Draft) -> None:
    """Find ports for the runs whose GPUs nobody uses any more."""
    busy = {gpu for run in draft.state.runs.values() if run.phase in AT_WORK for gpu in run.gpus}
    for run in list(draft.state.runs.values()):
        if run.phase is Phase.RESERVING and busy.isdisjoint(run.gpus):
            draft.do(m.HoldPort(run.key))


def _start(draft: _Draft, command: m.Start) -> None:
    run = draft.state.runs.get(command.key)
    if run is None:
        draft.know(command.key)
        draft.say(command.key, Outcome.REFUSED, "nothing was set aside for it")
    elif run.phase is Phase.RUNNING:
        draft.say(run.key, Outcome.STARTED)
    elif run.phase is Phase.ENDED:
        _repeat_end(draft, run)
    elif run.phase is Phase.RESERVED:
        spec, why = _dealt(run, command.spec)
        if why:
            draft.do(m.FreePort(run.key))
            draft.put(replace(run, phase=Phase.ENDED, port=0))
            draft.say(run.key, Outcome.REFUSED, why)
            draft.say(run.key, Outcome.RELEASED)
            return
        draft.put(replace(run, phase=Phase.STARTING, start=spec))
        draft.do(m.Launch(run.key))


def _dealt(run: Run, spec: StartSpec) -> tuple[StartSpec, str]:
    """Return a start with GPUs for every task, or why it cannot be followed."""
    if not spec.command:
        return spec, "it has no command"
    if not spec.tasks:
        return spec, "it has no task on this node"
    named = [gpu for task in spec.tasks for gpu in task.gpus]
    if len(set(named)) < len(named) or not set(named) <= set(run.gpus):
        return spec, "its tasks have GPUs that were not set aside for it, or one GPU twice"
    left = [gpu for gpu in run.gpus if gpu not in set(named)]
    tasks = []
    for task in sorted(spec.tasks, key=lambda each: each.local_rank):
        if not task.gpus:
            mine, left = tuple(left[: task.count]), left[task.count :]
            if len(mine) < task.count:
                return spec, "its tasks ask for more GPUs than were set aside for it"
            task = replace(task, gpus=mine)
        tasks.append(task)
    return replace(spec, tasks=tuple(tasks)), ""


def _signal(draft: _Draft, command: m.Signal) -> None:
    run = _held(draft, command.key)
    if run is None:
        return
    if run.phase in UNBEGUN:
        _end(draft, run, "")
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


def _kill(draft: _Draft, command: m.Kill | m.Release) -> None:
    run = _held(draft, command.key)
    if run is not None:
        _end(draft, run, "")


def _held(draft: _Draft, key: Key) -> Run | None:
    """Return a run that is to end, where something of it is left; else say that it is released."""
    draft.know(key)
    run = draft.state.runs.get(key)
    if run is None or run.phase is Phase.ENDED:
        draft.say(key, Outcome.RELEASED)
        return None
    return run


def _end(draft: _Draft, run: Run, why: str) -> None:
    """End a run at once, however far it has come."""
    if run.phase in UNBEGUN:
        draft.do(m.FreePort(run.key))
        draft.put(replace(run, phase=Phase.ENDED, port=0))
        draft.say(run.key, Outcome.RELEASED, why)
        _settle(draft)
    elif run.phase is Phase.ENDED:
        draft.say(run.key, Outcome.RELEASED)
    elif run.phase is not Phase.KILLING:
        # Of one that is being started nothing can be ended yet: that is asked again once its tasks are there.
        draft.do(m.KillTasks(run.key))
        draft.put(replace(run, phase=Phase.KILLING))


def _probe(draft: _Draft, command: m.Probe) -> None:
    if command.epoch >= draft.state.epoch:
        draft.do(m.RunProbe(command.probe, idle_gpus(draft.state)))


# What the scheduler says otherwise


def _registered(draft: _Draft, message: m.Registered) -> None:
    if message.epoch < draft.state.epoch:
        draft.do(m.Leave(f"its epoch {message.epoch} is over, {draft.state.epoch} is in force"))
    else:
        draft.state = replace(draft.state, epoch=message.epoch)


def _acked(draft: _Draft, message: m.Acked) -> None:
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


def _port_held(draft: _Draft, message: m.PortHeld) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or run.phase not in UNBEGUN:
        draft.do(m.FreePort(message.key))
    elif message.port == 0:
        draft.drop(run.key)
        draft.say(run.key, Outcome.REFUSED, "no port is free here")
    elif run.phase is Phase.RESERVING:
        draft.put(replace(run, phase=Phase.RESERVED, port=message.port))
        draft.say(run.key, Outcome.RESERVED, port=message.port)


def _launched(draft: _Draft, message: m.Launched) -> None:
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


def _not_launched(draft: _Draft, message: m.NotLaunched) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or run.phase not in AT_WORK:
        return
    draft.put(replace(run, phase=Phase.ENDED, kill_at=None))
    if run.phase is Phase.STARTING:
        draft.say(run.key, message.outcome, message.why, exit_code=message.exit_code, rank=message.rank)
    draft.say(run.key, Outcome.RELEASED)
    _settle(draft)


def _ended(draft: _Draft, message: m.Ended) -> None:
    run = draft.state.runs.get(message.key)
    if run is None or run.phase not in AT_WORK:
        return
    end = message.end
    draft.put(replace(run, phase=Phase.ENDED, kill_at=None))
    if run.phase is Phase.STOPPING and run.says_done and end.first_bad is None and not end.lost:
        draft.say(run.key, Outcome.OK)
    elif run.phase in TOLD_TO_END:
        _say_end(draft, run, Outcome.RELEASED, told(end), end)
    else:
        outcome, why = classify(end)
        _say_end(draft, run, outcome, why, end)
        if outcome is not Outcome.OK:
            draft.say(run.key, Outcome.RELEASED)
    _settle(draft)


def _say_end(draft: _Draft, run: Run, outcome: Outcome, why: str, end: RunEnd) -> None:
    bad = end.first_bad or TaskEnd(-1)
    rank = None if end.first_bad is None else bad.rank
    draft.say(run.key, outcome, why, exit_code=bad.code, exit_signal=bad.signal, rank=rank)


def _repeat_end(draft: _Draft, run: Run) -> None:
    """Say again how a run ended to a scheduler that asks it to begin; what waits already is not said twice."""
    if not any(isinstance(each, Said) and each.key == run.key for each in draft.state.outbox):
        # Its end was acknowledged, and so it ended well: one that did not is released, and forgotten with that.
        draft.say(run.key, Outcome.OK)


def _job_said(draft: _Draft, message: m.JobSaid) -> None:
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


def _probe_ended(draft: _Draft, message: m.ProbeEnded) -> None:
    outbox = tuple(each for each in draft.state.outbox if not isinstance(each, Probed))
    draft.state = replace(draft.state, outbox=outbox)
    draft.pend(lambda number: Probed(number, message.probe, message.ok, message.why))


def _inventory(draft: _Draft, message: m.Inventory) -> None:
    draft.state = replace(draft.state, gpus=message.gpus, bad=message.bad)
    _settle(draft)


def _tick(draft: _Draft, message: m.Tick) -> None:
    for run in list(draft.state.runs.values()):
        if run.phase is Phase.STOPPING and run.kill_at is not None and run.kill_at <= draft.now:
            _end(draft, run, "")


_COMMANDS: dict[type, Callable[[_Draft, Any], None]] = {
    m.Reserve: _reserve,
    m.Start: _start,
    m.Signal: _signal,
    m.Kill: _kill,
    m.Release: _kill,
}
_OTHERS: dict[type, Callable[[_Draft, Any], None]] = {
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

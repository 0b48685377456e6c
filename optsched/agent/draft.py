"""A step of the agent's core in the making, and what several messages lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from optsched.agent import messages as m
from optsched.agent.values import (
    AT_WORK,
    MOST_NEWEST,
    UNBEGUN,
    Key,
    Outcome,
    Pending,
    Phase,
    Run,
    RunEnd,
    Said,
    StartSpec,
    State,
    TaskEnd,
)


@dataclass(slots=True)
class Draft:
    """A step in the making."""

    state: State
    now: float
    actions: list[m.Action]

    def do(self, *actions: m.Action) -> None:
        """Ask the shell for something."""
        self.actions += actions

    def put(self, run: Run) -> None:
        """Set a run to what it is now."""
        self.state = replace(self.state, runs={**self.state.runs, run.key: run})

    def drop(self, key: Key) -> None:
        """Forget a run."""
        self.state = replace(self.state, runs={k: run for k, run in self.state.runs.items() if k != key})

    def know(self, key: Key) -> None:
        """Note the newest run of a job; of very many jobs those that were named last are remembered."""
        kept = {job: run for job, run in self.state.newest.items() if job != key.job} | {key.job: key.run}
        while len(kept) > MOST_NEWEST:
            kept.pop(next(iter(kept)))
        self.state = replace(self.state, newest=kept)

    def pend(self, make: Callable[[int], Pending]) -> None:
        """Put something among what waits to be heard; `make` is given its number."""
        number = self.state.next_id
        self.state = replace(self.state, next_id=number + 1, outbox=(*self.state.outbox, make(number)))

    def say(self, key: Key, outcome: Outcome, why: str = "", **more: Any) -> None:
        """Report; what waits already in the same words is not said twice."""
        said = Said(0, key, outcome, self.now, why, **more)
        for each in self.state.outbox:
            if isinstance(each, Said) and replace(each, id=0, at=self.now) == said:
                return
        self.pend(lambda number: replace(said, id=number))


def know(draft: Draft, key: Key) -> None:
    """Note that a run exists; where it is newer than any of its job, nobody wants the older ones any more."""
    if key.run > draft.state.newest.get(key.job, 0):
        draft.know(key)
        for older in [each for each in draft.state.runs.values() if each.key.job == key.job and each.key != key]:
            end_run(draft, older, f"run {key.run} of the job is known")


def settle(draft: Draft) -> None:
    """Find ports for the runs whose GPUs nobody uses any more."""
    busy = {gpu for run in draft.state.runs.values() if run.phase in AT_WORK for gpu in run.gpus}
    for run in list(draft.state.runs.values()):
        if run.phase is Phase.RESERVING and busy.isdisjoint(run.gpus):
            draft.do(m.HoldPort(run.key))


def end_run(draft: Draft, run: Run, why: str) -> None:
    """End a run at once, however far it has come."""
    if run.phase in UNBEGUN:
        draft.do(m.FreePort(run.key))
        draft.put(replace(run, phase=Phase.ENDED, port=0))
        draft.say(run.key, Outcome.RELEASED, why)
        settle(draft)
    elif run.phase is Phase.ENDED:
        draft.put(replace(run, say_at=None))
        draft.say(run.key, Outcome.RELEASED)
    elif run.phase is not Phase.KILLING:
        # Of one that is being started nothing can be ended yet: that is asked again once its tasks are there.
        draft.do(m.KillTasks(run.key))
        draft.put(replace(run, phase=Phase.KILLING))


def choose(state: State, command: m.Reserve) -> tuple[tuple[int, ...], str]:
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


def dealt(run: Run, spec: StartSpec) -> tuple[StartSpec, str]:
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


def say_end(draft: Draft, run: Run, outcome: Outcome, why: str, end: RunEnd) -> None:
    """Report an end, with the exit of the task that ended badly first."""
    bad = end.first_bad or TaskEnd(-1)
    rank = None if end.first_bad is None else bad.rank
    draft.say(run.key, outcome, why, exit_code=bad.code, exit_signal=bad.signal, rank=rank)


def repeat_end(draft: Draft, run: Run) -> None:
    """Say again how a run ended to a scheduler that asks it to begin; what waits already is not said twice."""
    waits = run.say_at is not None or any(isinstance(e, Said) and e.key == run.key for e in draft.state.outbox)
    if not waits:
        # Its end was acknowledged, and so it ended well: one that did not is released, and forgotten with that.
        draft.say(run.key, Outcome.OK)

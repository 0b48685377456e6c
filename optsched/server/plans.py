"""Requests about rounds: what the next one would do, and what those before did."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from optsched.clock import WallClock
from optsched.engine.ports import RoundRecord, Store
from optsched.engine.state import State
from optsched.engine.view import snapshot_of
from optsched.errors import Busy, InputError, NotKnown
from optsched.files.document import parse_document
from optsched.files.plan_json import move_to_dict, plan_to_dict, preemption_to_dict, start_to_dict, waiting_to_dict
from optsched.files.profiles import resolve_profile
from optsched.files.report import Scope
from optsched.files.snapshots import parse_snapshot
from optsched.planner.plan import Fate, PlanOptions, explain_job, plan_round
from optsched.planner.window import in_window
from optsched.server import asked
from optsched.server.caller import Caller
from optsched.server.checks import Plain, Rules, read_job, request
from optsched.server.jobs import known_job
from optsched.server.leader import Leader
from optsched.server.lists import read_token, write_token
from optsched.server.submit import new_id
from optsched.server.views import job_view
from optsched.values.ids import JobId
from optsched.values.plan import Move, Preemption, Start, Waiting
from optsched.values.snapshot import Snapshot

T = TypeVar("T")

MAX_PLANS = 2
"""Dry runs under way at a time; more are sent away."""


@dataclass(slots=True)
class Plans:
    """What may be asked about rounds. `options` are those of the service's own rounds."""

    leader: Leader
    store: Store
    rules: Rules
    options: PlanOptions
    default_team: str = ""
    _running: int = field(default=0)

    async def explain(self, data: Plain, caller: Caller) -> Plain:
        """Say what the next round does with a job."""
        asking, _ = request(asked.ExplainJobRequest, data)
        state = self.leader.state
        record = known_job(state, asking.id, caller)
        found: Plain = {"job": job_view(record, state), "state_version": state.version, "at": state.now}
        snapshot = await asyncio.to_thread(snapshot_of, state)
        if all(job.id != record.id for job in snapshot.jobs):
            # It has ended, is on its way out, or is kept back: there is nothing to plan.
            return found
        options = self._options(asking.budget_s)
        # Rounds look at no more of a long queue.
        window = in_window(snapshot, record.id)[0]
        fate = await self._planned(lambda: explain_job(window, JobId(asking.id), options, WallClock()))
        return found | _fate(fate)

    async def plan(self, data: Plain, caller: Caller) -> Plain:
        """Plan a round and change nothing."""
        asking, scope = request(asked.PlanRequest, data)
        state = self.leader.state
        if asking.snapshot not in (None, ""):
            # Megabytes of it take seconds to read, for which nobody else is to wait.
            snapshot, warnings = await self._planned(lambda: _given(asking.snapshot, scope))
            version = 0
        else:
            snapshot, warnings = await self._at_hand(asking, scope, state, caller)
            version = state.version
        if asking.profile:
            profile = resolve_profile(asking.profile, scope.at("profile"))
            scope.report.raise_faults()
            if profile is not None:
                snapshot = replace(snapshot, profile=profile)
        options = replace(self._options(asking.budget_s), tasks=asking.tasks)
        plan = await self._planned(lambda: plan_round(snapshot, options, WallClock()))
        shown = plan_to_dict(plan, asking.tasks) | {"warnings": [*warnings, *plan.warnings]}
        return {"plan": shown, "state_version": version, "at": snapshot.now}

    async def _at_hand(
        self, asking: asked.PlanRequest, scope: Scope, state: State, caller: Caller
    ) -> tuple[Snapshot, tuple[str, ...]]:
        """Return the cluster as it stands, with the jobs that are not there and without those to be left out."""
        for name in asking.without:
            known_job(state, name, caller)
        now = self.leader.now()
        about = self.rules.known(state, now)
        team = caller.team or (self.default_team if self.default_team in state.teams else "")
        more = [
            read_job(each, scope.at("jobs", number), self.rules, about, team, new_id())
            for number, each in enumerate(asking.jobs)
        ]
        for number, each in enumerate(more):
            if each is not None:
                caller.check_team(each.job.team, f"job {each.job.id}")
            if each is not None and state.record(each.job.id) is not None:
                scope.fault(f"the job {each.job.id} is there already", "an id that no job has", "jobs", number, "id")
        scope.report.raise_faults()
        snapshot = await asyncio.to_thread(snapshot_of, state)
        left_out = frozenset(asking.without)
        jobs = [job for job in snapshot.jobs if job.id not in left_out]
        return replace(
            snapshot, jobs=(*jobs, *(each.job for each in more if each is not None))
        ), scope.report.warnings()

    def _options(self, budget_s: float) -> PlanOptions:
        return replace(self.options, budget_s=budget_s) if budget_s else self.options

    async def _planned(self, work: Callable[[], T]) -> T:
        """Do a dry run in a thread; a few at a time."""
        if self._running >= MAX_PLANS:
            raise Busy(f"{MAX_PLANS} plans are being made: try again in a moment", 2.0)
        self._running += 1
        planning = asyncio.ensure_future(asyncio.to_thread(work))
        planning.add_done_callback(self._done)
        # Who gives up waiting does not end the thread: it counts until it is done.
        return await asyncio.shield(planning)

    def _done(self, planning: asyncio.Future[T]) -> None:
        self._running -= 1
        if not planning.cancelled():
            planning.exception()

    # Rounds that were

    async def rounds(self, data: Plain, caller: Caller) -> Plain:
        """Return a page of rounds, the newest first."""
        asking, scope = request(asked.ListRoundsRequest, data)
        after = read_token(asking.page_token, scope)
        before = None if after is None else int(after[0])
        found = await asyncio.to_thread(self.store.rounds, before, asking.size + 1)
        page = found[: asking.size]
        token = write_token(page[-1].number, "") if len(found) > asking.size else ""
        return {"rounds": [_round(record) for record in page], "next_page_token": token}

    async def round(self, data: Plain, caller: Caller) -> Plain:
        """Return one round with its plan."""
        asking, _ = request(asked.GetRoundRequest, data)
        record = await asyncio.to_thread(self.store.round, asking.id)
        if record is None:
            raise NotKnown(f"no round has the number {asking.id}, or it is kept no longer")
        return _round(record)


def _given(snapshot: object, scope: Scope) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot that a request carries, as text or as data. Raises InputError."""
    data = parse_document(snapshot, "snapshot", None).data if isinstance(snapshot, str) else snapshot
    if not isinstance(data, dict):
        scope.fault("is no mapping", "a snapshot in the schema of files", "snapshot")
        scope.report.raise_faults()
    assert isinstance(data, dict)
    try:
        return parse_snapshot(data, "snapshot")
    except InputError as error:
        raise InputError(replace(fault, field=f"snapshot.{fault.field}") for fault in error.faults) from None


def _fate(fate: Fate) -> Plain:
    match fate:
        case Waiting():
            return {"waits": waiting_to_dict(fate)}
        case Start():
            return {"starts": start_to_dict(fate, tasks=bool(fate.tasks))}
        case Preemption():
            return {"stops": preemption_to_dict(fate)}
        case Move():
            return {"moves": move_to_dict(fate)}
        case None:
            return {}


def _round(record: RoundRecord) -> Plain:
    """Return a round; with its plan, where that is there."""
    bill = record.bill
    found: Plain = {
        "id": record.number,
        "at": record.at,
        "info": {"source": record.source.value, "gap": record.gap},
        "bill": {name: getattr(bill, name) for name in type(bill).__slots__},
    }
    if record.plan is not None:
        plan = json.loads(record.plan)
        found |= {"plan": plan, "info": plan["round"]}
        found |= {name: len(plan[name]) for name in ("starts", "preemptions", "migrations", "resizes")}
    return found

"""Rights in the coarse model: sums by team and over the cluster."""

from __future__ import annotations

from collections import defaultdict

from ortools.sat.python.cp_model import IntVar

from optsched.rounds.problem import What
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.claims import Claims
from optsched.solve.cpsat.coarse_jobs import CoarseJobs
from optsched.solve.cpsat.terms import Linear, total
from optsched.values.profile import Reclaim


class Rights:
    """Who may be served from what others give up, by team and over the cluster, for each GPU type."""

    def __init__(self, jobs: CoarseJobs, claims: Claims) -> None:
        self.jobs, self.claims = jobs, claims
        self.problem, self.model, self.decisions = jobs.problem, jobs.model, jobs.decisions

    def add(self) -> None:
        """Add them for every GPU type."""
        for y in range(len(self.problem.gpu_types)):
            self._add_type(y)

    def _add_type(self, y: int) -> None:
        problem, model = self.problem, self.model
        here = (problem.nodes.gpu_type == y) & problem.nodes.taking
        free = int(problem.nodes.free[here].sum())
        takers = self._takers(y)
        if not takers:
            return
        given = self._given(y)
        own: dict[int, list[tuple[int, IntVar]]] = defaultdict(list)
        supply_own: dict[int, list[tuple[int, IntVar]]] = defaultdict(list)
        pool_quota: list[IntVar] = []
        pool_fair: list[IntVar] = []
        by_claim_team: dict[int, list[IntVar]] = defaultdict(list)
        for (team, claim_team, priority, above_quota, above_fair), amounts in given.items():
            most = sum(amount for amount, _ in amounts)
            to_own = model.new_int_var(0, most, f"own {team}.{priority}")
            to_pool = model.new_int_var(0, most if above_quota else 0, f"pool {team}.{priority}")
            model.add(to_own + to_pool <= total([gpus for _, gpus in amounts]))
            supply_own[team].append((priority, to_own))
            if above_quota:
                (pool_fair if above_fair else pool_quota).append(to_pool)
                by_claim_team[claim_team].append(to_pool)
        from_free: list[Linear] = []
        use_fair: list[Linear] = []
        use_quota: list[Linear] = []
        for (team, claim_team, priority, above), sizes in takers.items():
            most = sum(amount for amount, _ in sizes)
            y_free = model.new_int_var(0, most, f"free {team}.{priority}")
            t_own = model.new_int_var(0, most, f"from own {team}.{priority}")
            p_quota = model.new_int_var(0, most, f"by quota {team}.{priority}")
            p_fair = model.new_int_var(0, most, f"by share {team}.{priority}")
            model.add(total([gpus for _, gpus in sizes]) <= y_free + t_own + p_quota + p_fair)
            from_free.append(y_free)
            own[team].append((priority, t_own))
            key = (len(problem.priorities) if above else 0) + priority
            self._claim(p_quota, claim_team, key, quota=True)
            self._claim(p_fair, claim_team, key, quota=False)
            use_quota.append(p_quota)
            use_fair.append(p_fair)
        # What moves leave is served to others, what they take displaces nobody: only changes of type count.
        model.add(total(from_free) <= free + self.jobs.left_by_type_changes(y))
        model.add(total(use_fair) <= total(list(pool_fair)))
        model.add(total(use_fair + use_quota) <= total(list(pool_fair)) + total(list(pool_quota)))
        for team, parts in own.items():
            for threshold in sorted({priority for priority, _ in parts}):
                less_urgent: list[Linear] = [t for priority, t in parts if priority >= threshold]
                lower: list[Linear] = [a for priority, a in supply_own[team] if priority > threshold]
                model.add(total(less_urgent) <= total(lower))
        self._floors(by_claim_team)

    def _claim(self, amount: IntVar, team: int, key: int, *, quota: bool) -> None:
        if not quota and self.problem.profile.reclaim is not Reclaim.FAIR_SHARE:
            self.model.add(amount == 0)
            return
        literal = self.claims.literal(team, key, quota=quota, entitlement=not quota)
        if literal is False:
            self.model.add(amount == 0)
        elif literal is not True:
            self.model.add(amount == 0).only_enforce_if(~literal)

    def _takers(self, y: int) -> dict[tuple[int, int, int, bool], list[tuple[int, Linear]]]:
        """Return what groups of takers want of one type, as (most, GPUs).

        Jobs whose rights or type are open are left out.
        """
        takers: dict[tuple[int, int, int, bool], list[tuple[int, Linear]]] = defaultdict(list)
        for gang in self.decisions.starts.values():
            job = gang.job
            if list(gang.types) != [y] or job.emergency or job.due:
                continue
            # Above its minimum a job needs the stronger claim; in the sums it is held to the weaker one.
            takers[job.team, job.claim_team, job.priority, False].append((job.minimum, job.minimum * gang.active))
        return takers

    def _given(self, y: int) -> dict[tuple[int, int, int, bool, bool], list[tuple[int, Linear]]]:
        """Return what stops and shrinks give up of one type, by team, priority and what lies above which line."""
        problem = self.problem
        given: dict[tuple[int, int, int, bool, bool], list[tuple[int, Linear]]] = defaultdict(list)
        for j, stop in self.decisions.stops.items():
            job, takeable = problem.jobs[j], problem.takeable[j]
            if gpu_type_of(problem, job.spread_now) == y:
                above = takeable.above_quota[0]
                key = (job.team, job.claim_team, job.priority, above, above and takeable.above_entitlement[0])
                given[key].append((job.size_now, job.size_now * stop))
        for j in self.decisions.resizes:
            job, takeable = problem.jobs[j], problem.takeable[j]
            if gpu_type_of(problem, job.spread_now) == y:
                above = takeable.above_quota[1]
                key = (job.team, job.claim_team, job.priority, above, above and takeable.above_entitlement[1])
                given[key].append((job.size_now, self.jobs.lost[j]))
        return given

    def _floors(self, by_claim_team: dict[int, list[IntVar]]) -> None:
        """Other teams take no more of a team than it has above its quota (of any type)."""
        problem = self.problem
        for team, pools in by_claim_team.items():
            for item in problem.lines.quota[team]:
                if item.what is What.GPUS and item.gpu_type is None:
                    ran = sum(job.size_now for job in problem.running if job.claim_team == team)
                    self.model.add(total(list(pools)) <= ran - min(item.amount, ran))

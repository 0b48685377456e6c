"""Teams: each by itself, then the tree that they form, then whether their quotas can hold."""

from __future__ import annotations

from collections.abc import Mapping

from optsched.files.known import Known
from optsched.files.report import Scope, show
from optsched.files.schema import AmountsIn, TeamIn
from optsched.files.validate import validate_list
from optsched.values.cluster import Cluster
from optsched.values.ids import GpuType, TeamId
from optsched.values.resources import Amounts
from optsched.values.team import Team


def read_teams(data: object, scope: Scope, about: Known) -> None:
    """Read `teams:` into `about`; faults are noted."""
    for index, entry in validate_list(scope, TeamIn, data):
        here = scope.at(index)
        team = build_team(entry, here, about)
        if team is None:
            continue
        if team.id in about.teams:
            here.fault(f"the team id {show(team.id)} is given twice", "each team id once", "id")
            continue
        about.teams[team.id] = team
    entries = data if isinstance(data, list) else []
    places = {
        entry["id"]: index
        for index, entry in reversed(list(enumerate(entries)))
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    }
    for team in about.teams.values():
        if team.parent is not None and team.parent != team.id:
            about.check_team(team.parent, scope.at(places[team.id]), "parent")
    for cycle in cycles({team.id: team.parent for team in about.teams.values()}):
        scope.fault(
            f"the teams form a circle: {' -> '.join(cycle)}", "parents that form a tree", places[cycle[0]], "parent"
        )


def build_team(entry: TeamIn, scope: Scope, about: Known) -> Team | None:
    """Return the value of a team; None where its priority ceiling is no known class."""
    ceiling = (0, "") if entry.max_priority is None else about.priority(entry.max_priority, scope, "max_priority")
    if ceiling is None:
        return None
    return Team(
        id=TeamId(entry.id),
        parent=None if entry.parent is None else TeamId(entry.parent),
        weight=entry.weight,
        quota=amounts(entry.quota),
        limit=amounts(entry.limit),
        max_priority=None if entry.max_priority is None else ceiling[0],
        max_deadline_gpus=entry.max_deadline_gpus,
        user_limit=amounts(entry.user_limit),
    )


def amounts(entry: AmountsIn | None) -> Amounts | None:
    """Return what a quota or limit names."""
    if entry is None:
        return None
    by_type = entry.gpus if isinstance(entry.gpus, dict) else {}
    return Amounts(
        gpus=entry.gpus if isinstance(entry.gpus, int) else None,
        gpus_by_type={GpuType(name): count for name, count in by_type.items()},
        cpus=entry.cpus,
        memory_gb=entry.memory_gb,
    )


def cycles(parents: Mapping[TeamId, TeamId | None]) -> list[list[TeamId]]:
    """Return each circle of parents once, from its first team in the order given back to that team."""
    done: set[TeamId] = set()
    found: list[list[TeamId]] = []
    for start in parents:
        walk: list[TeamId] = []
        on_walk: set[TeamId] = set()
        team: TeamId | None = start
        while team is not None and team in parents and team not in done and team not in on_walk:
            walk.append(team)
            on_walk.add(team)
            team = parents[team]
        if team is not None and team in on_walk:
            found.append([*walk[walk.index(team) :], team])
        done |= on_walk
    return found


def warn_of_quotas(about: Known, cluster: Cluster, scope: Scope) -> None:
    """Warn where quotas add up to more than there is: above the cluster, above their parent, above their own limit."""
    children: dict[TeamId | None, list[Team]] = {}
    for team in about.teams.values():
        children.setdefault(team.parent if team.parent in about.teams else None, []).append(team)
    if cycles({team.id: team.parent for team in about.teams.values()}):
        return
    needs: dict[TeamId, int] = {}
    for team in _leaves_first(children):
        own, below = total_gpus(team.quota), sum(needs[child.id] for child in children.get(team.id, ()))
        if own is not None and below > own:
            text = f"the quotas below team {team.id} add up to {below} GPUs, its own quota is {own}"
            scope.report.warn("teams with less quota than the teams below them", text)
        top = total_gpus(team.limit)
        if own is not None and top is not None and own > top:
            scope.report.warn(
                "teams with a quota above their limit", f"team {team.id} has a quota of {own} GPUs and a limit of {top}"
            )
        needs[team.id] = below if own is None else own
    healthy = sum(node.healthy_gpus for node in cluster.nodes)
    needed = sum(needs[team.id] for team in children.get(None, ()))
    if needed > healthy:
        scope.report.warn(
            "quotas above the cluster",
            f"the quotas add up to {needed} GPUs, the cluster has {healthy} healthy ones: "
            "nobody who runs inside its quota is displaced for the rest",
        )
    _warn_by_type(about, cluster, scope)


def _warn_by_type(about: Known, cluster: Cluster, scope: Scope) -> None:
    asked: dict[GpuType, int] = {}
    for team in about.teams.values():
        if team.quota is not None and (team.parent is None or team.parent not in about.teams):
            for name, count in team.quota.gpus_by_type.items():
                asked[name] = asked.get(name, 0) + count
    for name, count in asked.items():
        healthy = sum(node.healthy_gpus for node in cluster.nodes if node.gpu_type == name)
        if count > healthy:
            text = f"the quotas add up to {count} {name} GPUs, the cluster has {healthy} healthy ones"
            scope.report.warn("quotas above the cluster", text)


def total_gpus(named: Amounts | None) -> int | None:
    """Return the GPUs that a quota or limit names in all; None where it names none."""
    if named is None or not named.names_gpus:
        return None
    return named.gpus if named.gpus is not None else sum(named.gpus_by_type.values())


def _leaves_first(children: Mapping[TeamId | None, list[Team]]) -> list[Team]:
    order: list[Team] = list(children.get(None, ()))
    for team in order:
        order.extend(children.get(team.id, ()))
    return order[::-1]

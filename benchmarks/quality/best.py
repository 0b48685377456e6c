"""Find the best known plans of rounds, and what is proven of them, and write the table that is shipped.

    python -m benchmarks.quality.best [--deterministic S] [--solver exact|auto|coarse] [--seeds N] [ROUND ...]

A ROUND is the name of a shipped round, or KIND:SEED of a generated one; without any, all shipped ones. What an entry
says stands until something better is found, or more is proven. All policies are asked too: whoever has the best plan,
it counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quality.write import FOLDER
from benchmarks.rounds import encode, generate
from optsched.clock import WallClock
from optsched.rounds.assignment import Assignment
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from optsched.sim.quality.best import Best, from_plain, to_plain
from optsched.sim.quality.collection import TABLE, Round, load_round, round_names
from optsched.sim.quality.judge import Worth, judge, rank_names, worth_of
from optsched.sim.quality.measure import plan_of
from optsched.solve.ladder import SolverChoice, climb
from optsched.solve.result import Budget, Result

ENDLESS_S = 1e9

MOST_ASKED_S = 2.0
"""Counted seconds that a policy's search gets at most: the long searches are those of the solvers."""

Entry = dict[str, object]


@dataclass(frozen=True, slots=True)
class Found:
    """A plan that somebody found, and what was proven on the way."""

    worth: Worth
    result: Result
    how: str


def searched(given: Round, solver: SolverChoice, deterministic_s: float, seed: int) -> Found:
    """Return what a search finds in the round itself: nothing is reserved for anybody who cannot start in it."""
    problem, clock = given.problem, WallClock()
    answer = climb(problem, solver, Budget(ENDLESS_S, deterministic_s, seed), clock)
    how = f"solver {solver.value}, {deterministic_s:g} counted seconds, seed {seed}"
    return Found(worth_of(problem, answer.assignment), answer.result, how)


def asked(given: Round, deterministic_s: float) -> Iterator[Found]:
    """Yield the valid plans of all policies."""
    for policy in POLICIES.values():
        plan, _ = plan_of(policy, given, Means(0, deterministic_s), WallClock())
        verdict = judge(given.problem, plan)
        if verdict.valid:
            how = f"policy {policy.name}, {deterministic_s:g} counted seconds"
            yield Found(verdict.worth, Result(Assignment()), how)


def best_known(founds: Sequence[Found], before: Best | None) -> Best:
    """Return the best of all plans, with what all searches together prove of it."""
    best = max(founds, key=lambda found: found.worth.key)
    worth, how = best.worth, best.how
    if before is not None and before.worth.key >= worth.key:
        worth, how = before.worth, before.how
    bounds = [_bound(worth, row, founds, before) for row in range(len(worth.ranks))]
    for row, (gpus, bound) in enumerate(zip(worth.ranks, bounds, strict=True)):
        if bound is None or bound > gpus:
            bounds[row + 1 :] = [None] * (len(bounds) - row - 1)
            break
    same = [found.result for found in founds if found.worth.key[:-1] == worth.key[:-1]]
    bills = [result.bill_bound for result in same if result.bill_bound is not None]
    if before is not None and before.bill_bound is not None and before.worth.key[:-1] == worth.key[:-1]:
        bills.append(before.bill_bound)
    proven = any(found.result.proven and found.worth.key == worth.key for found in founds)
    proven = proven or (before is not None and before.proven and before.worth.key == worth.key)
    return Best(worth, tuple(bounds), max(bills, default=None), proven, how)


def _bound(worth: Worth, row: int, founds: Sequence[Found], before: Best | None) -> int | None:
    """Return the least bound of a rank that is known of plans with the same higher ranks."""
    known = [(found.worth.ranks, found.result.row_bounds) for found in founds]
    if before is not None:
        known.append((before.worth.ranks, before.bounds))
    found = [
        bounds[row]
        for ranks, bounds in known
        if row < len(bounds) and bounds[row] is not None and ranks[:row] == worth.ranks[:row]
    ]
    return min((bound for bound in found if bound is not None), default=None)


def load(name: str) -> Round:
    """Return a shipped round, or a generated one, which is made for it."""
    if ":" not in name:
        return load_round(name)
    kind, seed = name.split(":")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{kind}-{seed}.json"
        file.write_bytes(encode(generate(kind, int(seed))))
        return load_round(str(file))


def arguments_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rounds", nargs="*", metavar="ROUND")
    parser.add_argument("--deterministic", type=float, default=60.0)
    parser.add_argument("--solver", default="exact", choices=["exact", "auto", "coarse"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--no-policies", action="store_true")
    return parser


def main() -> None:
    """Search and write."""
    args = arguments_parser().parse_args()
    for name in args.rounds or round_names():
        given = load(name)
        old = _entries().get(given.digest)
        before = from_plain(old, rank_names(given.problem)) if old else None
        founds = [searched(given, SolverChoice(args.solver), args.deterministic, seed) for seed in range(args.seeds)]
        if not args.no_policies:
            founds += asked(given, min(args.deterministic, MOST_ASKED_S))
        best = best_known(founds, before)
        _write(given, to_plain(given, best))
        bound = "not bounded" if best.bill_bound is None else f"bound {best.bill_bound:,}"
        proven = "proven" if best.proven else "not proven"
        print(
            f"{given.name}: {best.worth.gpus} GPUs, bill {best.worth.bill:,}, {bound}, {proven}; {best.how}", flush=True
        )


def _entries() -> dict[str, Entry]:
    """Return the entries of the table as it stands, by the digests of their rounds."""
    if not (FOLDER / TABLE).exists():
        return {}
    return {entry["digest"]: entry for entry in json.loads((FOLDER / TABLE).read_text(encoding="utf-8"))["rounds"]}


def _write(given: Round, entry: Entry) -> None:
    """Put an entry into the table, in place of any of its round."""
    kept = [old for old in _entries().values() if old["round"] != given.name]
    rows = sorted([*kept, entry], key=lambda each: str(each["round"]))
    text = ",\n  ".join(json.dumps(row) for row in rows)
    (FOLDER / TABLE).write_text('{"rounds": [\n  ' + text + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

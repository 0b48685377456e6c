"""The table of best known plans: what they are worth, what is proven, and how they were found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from optsched.errors import InternalError
from optsched.sim.quality.collection import TABLE, Round, folder
from optsched.sim.quality.judge import Worth, rank_names


@dataclass(frozen=True, slots=True)
class Best:
    """What is known of a round. `bounds` are by rank, with the higher ranks as the best plan has them; None: not known.

    `bill_bound`: no plan of these ranks has a lower bill. `proven`: no better plan exists. `how` says who found it.
    """

    worth: Worth
    bounds: tuple[int | None, ...]
    bill_bound: int | None
    proven: bool
    how: str


@cache
def table() -> Mapping[str, Mapping[str, object]]:
    """Return the shipped table's entries by the digests of their rounds."""
    data = json.loads(folder().joinpath(TABLE).read_text(encoding="utf-8"))
    return {entry["digest"]: entry for entry in data["rounds"]}


def best_of(given: Round) -> Best | None:
    """Return what the shipped table knows of a round; None where it does not know this very content."""
    entry = table().get(given.digest)
    return None if entry is None else from_plain(entry, rank_names(given.problem))


def to_plain(given: Round, best: Best) -> dict[str, object]:
    """Return an entry of the table as plain data."""
    worth, names = best.worth, rank_names(given.problem)
    rows = zip(names, worth.ranks, best.bounds, strict=True)
    return {
        "round": given.name,
        "digest": given.digest,
        "gpus": worth.gpus,
        "ranks": [{"rank": n, "gpus": gpus, "bound": bound} for n, gpus, bound in rows if gpus or bound],
        "stay_gpus": worth.stay_gpus,
        "age": worth.age,
        "bill": worth.bill,
        "bill_bound": best.bill_bound,
        "proven": best.proven,
        "how": best.how,
    }


def from_plain(entry: Mapping[str, object], names: Sequence[str]) -> Best:
    """Return what an entry of the table says. Raises InternalError for one that does not fit its round."""
    rows = entry["ranks"]
    assert isinstance(rows, list)
    by_name = {row["rank"]: (row["gpus"], row["bound"]) for row in rows}
    if strange := by_name.keys() - set(names):
        raise InternalError(f"{entry['round']}: the table has ranks that the round does not: {sorted(strange)}")
    ranks: list[int] = []
    bounds: list[int | None] = []
    opened = False
    for name in names:
        # Ranks at which nothing runs are left out; below an open one it is not known whether anything could.
        gpus, most = by_name.get(name, (0, None if opened else 0))
        ranks.append(gpus)
        bounds.append(most)
        opened = opened or most is None or most > gpus
    bill, bound = _whole(entry["bill"]), entry["bill_bound"]
    worth = Worth(tuple(ranks), _whole(entry["stay_gpus"]), _whole(entry["age"]), bill)
    return Best(
        worth, tuple(bounds), None if bound is None else _whole(bound), entry["proven"] is True, str(entry["how"])
    )


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise InternalError(f"the table of best known plans has {value!r} where a whole number stands")
    return value

"""Letting go of what the retention does not keep: in small transactions, so that no append waits long for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Row, delete, func, select, update

from optsched.store.retention import Retention
from optsched.store.tables import concerns, head, keys, log, rounds, waiting

Part = Callable[[Connection], bool]


class Pruning:
    """The parts of the work. Each call does some of it, `slice_rows` rows at most, and says whether more is left."""

    def __init__(self, retention: Retention, slice_rows: int) -> None:
        self._keep = retention
        self._slice = slice_rows

    def parts(self) -> Sequence[Part]:
        """Return the parts, in the order in which they are to be done; each until it says that nothing is left."""
        return (self.passing, self.history, self.old_rounds, self.plans, self.rounds, self.keys)

    def passing(self, writer: Connection) -> bool:
        """Drop what was kept for replay only, once a saved state makes that unnecessary."""
        pruned, saved = writer.execute(select(head.c.pruned, head.c.saved)).one()
        upto = min(saved, pruned + self._slice)
        here = (log.c.sequence > pruned) & (log.c.sequence <= upto) & (log.c.passing == 1)
        freed = writer.execute(select(func.coalesce(func.sum(log.c.size), 0)).where(here)).scalar_one()
        # What passes concerns no job.
        writer.execute(delete(log).where(here))
        writer.execute(delete(waiting).where(waiting.c.sequence > pruned, waiting.c.sequence <= upto))
        writer.execute(update(head).values(pruned=upto, log_bytes=head.c.log_bytes - freed))
        return bool(upto < saved)

    def history(self, writer: Connection) -> bool:
        """Drop the oldest entries of the history: those too old, and those for which there is no room."""
        newest, pruned, total = writer.execute(select(head.c.at, head.c.pruned, head.c.log_bytes)).one()
        rows = writer.execute(
            select(log.c.sequence, log.c.at, log.c.size)
            .where(log.c.sequence <= pruned)
            .order_by(log.c.sequence)
            .limit(self._slice)
        ).all()
        gone, freed = _oldest(
            [(at, size) for _, at, size in rows], newest - self._keep.history_s, total - self._keep.history_bytes
        )
        if gone:
            upto = rows[gone - 1][0]
            writer.execute(delete(concerns).where(concerns.c.sequence <= upto))
            writer.execute(delete(log).where(log.c.sequence <= upto))
            writer.execute(update(head).values(log_bytes=head.c.log_bytes - freed))
        return gone == self._slice

    def old_rounds(self, writer: Connection) -> bool:
        """Drop rounds that are too old."""
        at = writer.execute(select(head.c.at)).scalar_one()
        old = rounds.c.at < at - self._keep.rounds_s
        return self._drop_rounds(writer, self._first_rounds(writer, old))

    def plans(self, writer: Connection) -> bool:
        """Drop the oldest plans, where rounds take too much room."""
        total = writer.execute(select(head.c.round_bytes)).scalar_one()
        if total <= self._keep.round_bytes:
            return False
        rows = writer.execute(
            select(rounds.c.number, rounds.c.at, func.length(rounds.c.plan))
            .where(rounds.c.plan.is_not(None))
            .order_by(rounds.c.number)
            .limit(self._slice)
        ).all()
        gone, freed = _oldest([(at, size) for _, at, size in rows], float("-inf"), total - self._keep.round_bytes)
        if gone:
            writer.execute(
                update(rounds).where(rounds.c.number <= rows[gone - 1][0], rounds.c.plan.is_not(None)).values(plan=None)
            )
            writer.execute(update(head).values(round_bytes=head.c.round_bytes - freed))
        return gone == self._slice

    def rounds(self, writer: Connection) -> bool:
        """Drop the oldest rounds, where even without plans they take too much room."""
        total = writer.execute(select(head.c.round_bytes)).scalar_one()
        if total <= self._keep.round_bytes:
            return False
        rows = self._first_rounds(writer, rounds.c.number > 0)
        gone, _ = _oldest([(at, size) for _, at, size in rows], float("-inf"), total - self._keep.round_bytes)
        return self._drop_rounds(writer, rows[:gone])

    def keys(self, writer: Connection) -> bool:
        """Drop the oldest answers: those too old, and those too many."""
        at, count = writer.execute(select(head.c.at, head.c.key_count)).one()
        rows = writer.execute(select(keys.c.key, keys.c.at).order_by(keys.c.at, keys.c.key).limit(self._slice)).all()
        gone, _ = _oldest([(since, 1) for _, since in rows], at - self._keep.keys_s, count - self._keep.keys)
        if gone:
            writer.execute(delete(keys).where(keys.c.key.in_([key for key, _ in rows[:gone]])))
            writer.execute(update(head).values(key_count=head.c.key_count - gone))
        return gone == self._slice

    def _first_rounds(self, writer: Connection, where: object) -> Sequence[Row[tuple[int, float, int]]]:
        size = rounds.c.size + func.coalesce(func.length(rounds.c.plan), 0)
        wanted = select(rounds.c.number, rounds.c.at, size).where(where).order_by(rounds.c.number)  # type: ignore[arg-type]
        return writer.execute(wanted.limit(self._slice)).all()

    def _drop_rounds(self, writer: Connection, rows: Sequence[Row[tuple[int, float, int]]]) -> bool:
        if rows:
            writer.execute(delete(rounds).where(rounds.c.number.in_([row[0] for row in rows])))
            freed = sum(row[2] for row in rows)
            writer.execute(update(head).values(round_bytes=head.c.round_bytes - freed))
        return len(rows) == self._slice


def _oldest(rows: Sequence[tuple[float, int]], since: float, over: int) -> tuple[int, int]:
    """Return how many of the rows (instant, size), the oldest first, have to go, and what that frees."""
    freed = 0
    for number, (at, size) in enumerate(rows):
        if at >= since and freed >= over:
            return number, freed
        freed += size
    return len(rows), freed

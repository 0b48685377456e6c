"""Letting go of what the retention does not keep: in small transactions, so that no append waits long for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, func, select, update

from optsched.store.retention import Retention
from optsched.store.tables import concerns, head, keys, log, plans, rounds, waiting

Part = Callable[[Connection], bool]


class Pruning:
    """The parts of the work. Each call does some of it, `slice_rows` rows at most, and says whether more is left."""

    def __init__(self, retention: Retention, slice_rows: int) -> None:
        self._keep = retention
        self._slice = slice_rows

    def parts(self) -> Sequence[Part]:
        """Return the parts, in the order in which they are to be done; each until it says that nothing is left."""
        return (self.passing, self.history, self.old_rounds, *self.round_parts(), self.keys)

    def round_parts(self) -> Sequence[Part]:
        """Return the parts that keep rounds within their room: they may fill it between two saved states."""
        return (self.plans, self.rounds)

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
        old = select(rounds.c.number).where(rounds.c.at < at - self._keep.rounds_s).order_by(rounds.c.number)
        return self._drop_rounds(writer, writer.execute(old.limit(self._slice)).scalars().all())

    def plans(self, writer: Connection) -> bool:
        """Drop the oldest plans, where rounds take too much room."""
        size = func.length(plans.c.body)
        gone = self._first_over(writer, select(plans.c.number, size).order_by(plans.c.number))
        self._drop_plans(writer, gone)
        return len(gone) == self._slice

    def rounds(self, writer: Connection) -> bool:
        """Drop the oldest rounds, where even without plans they take too much room."""
        gone = self._first_over(writer, select(rounds.c.number, rounds.c.size).order_by(rounds.c.number))
        return self._drop_rounds(writer, gone)

    def keys(self, writer: Connection) -> bool:
        """Drop the oldest answers: those too old, and those too many."""
        at, count = writer.execute(select(head.c.at, head.c.key_count)).one()
        rows = writer.execute(select(keys.c.key, keys.c.at).order_by(keys.c.at, keys.c.key).limit(self._slice)).all()
        gone, _ = _oldest([(since, 1) for _, since in rows], at - self._keep.keys_s, count - self._keep.keys)
        if gone:
            writer.execute(delete(keys).where(keys.c.key.in_([key for key, _ in rows[:gone]])))
            writer.execute(update(head).values(key_count=head.c.key_count - gone))
        return gone == self._slice

    def _first_over(self, writer: Connection, wanted: Select[tuple[int, int]]) -> list[int]:
        """Return the numbers of the first of some rows (number, size) that have to go for the rest to fit."""
        over = writer.execute(select(head.c.round_bytes)).scalar_one() - self._keep.round_bytes
        if over <= 0:
            return []
        rows = writer.execute(wanted.limit(self._slice)).all()
        gone, _ = _oldest([(0.0, size) for _, size in rows], 0.0, over)
        return [number for number, _ in rows[:gone]]

    def _drop_rounds(self, writer: Connection, numbers: Sequence[int]) -> bool:
        self._drop_plans(writer, numbers)
        if numbers:
            self._drop(writer, rounds, rounds.c.size, numbers)
        return len(numbers) == self._slice

    def _drop_plans(self, writer: Connection, numbers: Sequence[int]) -> None:
        if numbers:
            self._drop(writer, plans, func.length(plans.c.body), numbers)

    @staticmethod
    def _drop(writer: Connection, table: Table, size: ColumnElement[int], numbers: Sequence[int]) -> None:
        here = table.c.number.in_(numbers)
        freed = writer.execute(select(func.coalesce(func.sum(size), 0)).where(here)).scalar_one()
        writer.execute(delete(table).where(here))
        writer.execute(update(head).values(round_bytes=head.c.round_bytes - freed))


def _oldest(rows: Sequence[tuple[float, int]], since: float, over: int) -> tuple[int, int]:
    """Return how many of the rows (instant, size), the oldest first, have to go, and what that frees."""
    freed = 0
    for number, (at, size) in enumerate(rows):
        if at >= since and freed >= over:
            return number, freed
        freed += size
    return len(rows), freed

"""Rows put into a table, all of them with one statement.

To a driver each row that is put alone is a call, after which its thread waits for the interpreter again; while the loop
is busy, that is most of the time of a commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sqlalchemy import Connection, Table

MOST_ROWS = 250
"""Rows of one statement, at most."""

Row = tuple[object, ...]


class Rows:
    """Puts rows into a table. A row has a value for each column, in the order of the table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._statements: dict[tuple[str, int], str] = {}

    def put(self, writer: Connection, rows: Sequence[Row]) -> None:
        """Put rows, if there are any. Raises what SQLAlchemy raises."""
        for some in _slices(rows):
            writer.exec_driver_sql(self._statement(writer, len(some)), tuple(chain.from_iterable(some)))

    def _statement(self, writer: Connection, count: int) -> str:
        dialect = writer.dialect
        known = self._statements.get((dialect.name, count))
        if known is None:
            quote = dialect.identifier_preparer.quote
            columns = [quote(column.name) for column in self._table.columns]
            mark = "?" if dialect.paramstyle == "qmark" else "%s"
            row = f"({', '.join([mark] * len(columns))})"
            into = f"INSERT INTO {quote(self._table.name)} ({', '.join(columns)}) VALUES "
            known = self._statements[dialect.name, count] = into + ", ".join([row] * count)
        return known


def _slices(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for first in range(0, len(rows), MOST_ROWS):
        yield rows[first : first + MOST_ROWS]

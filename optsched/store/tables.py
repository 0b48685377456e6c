"""The tables, as this version reads and writes them; `migrations` makes them. All names begin with `optsched_`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

schema = Table("optsched_schema", metadata, Column("version", Integer, nullable=False))
"""One row: the version of the tables."""

head = Table(
    "optsched_head",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", Float, nullable=False),
    Column("saved", BigInteger, nullable=False),
    Column("pruned", BigInteger, nullable=False),
    Column("round", BigInteger, nullable=False),
    Column("format", Integer, nullable=False),
    Column("log_bytes", BigInteger, nullable=False),
    Column("round_bytes", BigInteger, nullable=False),
    Column("key_count", BigInteger, nullable=False),
)
"""One row, which every change begins with: it takes the lock, shows whose epoch it is, and counts what is kept.

`sequence` and `at` are the last entry's, `saved` the state's (-1: none), `round` the last round's; up to entry
`pruned` what a saved state makes unnecessary is gone. `format` is that of the bodies.
"""

log = Table(
    "optsched_log",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("passing", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("crc", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""Entries: those after the saved state, and before it those of the history."""

waiting = Table(
    "optsched_waiting",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("crc", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""Who waits, of the decisions after the saved state."""

concerns = Table(
    "optsched_concerns",
    metadata,
    Column("job", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
)
"""Which entries belong to the history of a job."""

state = Table(
    "optsched_state",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("crc", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""The saved state: one row, or none."""

rounds = Table(
    "optsched_round",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("source", Text, nullable=False),
    Column("gap", Float),
    Column("bill", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("crc", BigInteger, nullable=False),
)
"""Rounds; `size` is what the row takes, about, without its plan."""

plans = Table(
    "optsched_plan",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)
"""The plans of rounds, apart from them: where they are dropped, whole pages come free."""

keys = Table(
    "optsched_key",
    metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("at", Float, nullable=False),
    Column("answer", LargeBinary, nullable=False),
)
"""Idempotency keys, as SHA-256, and the answers given under them."""

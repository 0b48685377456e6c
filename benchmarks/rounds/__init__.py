"""Generated rounds: busy clusters of several kinds, seeded. `generate(kind, seed)` returns a snapshot's document."""

from benchmarks.rounds.generate import compress, encode, generate
from benchmarks.rounds.kinds import KINDS, Kind

__all__ = ["KINDS", "Kind", "compress", "encode", "generate"]

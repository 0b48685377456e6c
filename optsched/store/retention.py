"""For how long things are kept, and in how much room."""

from __future__ import annotations

from dataclasses import dataclass, fields

from optsched.errors import UsageError

MIB = 2**20
DAY_S = 86_400.0
KEY_BYTES = 256
"""What a key takes with a short answer, indexes included."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages in seconds by the instants of the entries, sizes in bytes; what is over either goes, the oldest first.

    Entries that a saved state makes unnecessary for replay are kept as the history of jobs for `history_s` and within
    `history_bytes`. Rounds are kept for `rounds_s` within `round_bytes`: the oldest lose their plans first, then go.
    The answers under idempotency keys are kept for `keys_s`, at most `keys` of them: who sends
    a request again after that submits twice.
    """

    history_s: float = 30 * DAY_S
    history_bytes: int = 1024 * MIB
    rounds_s: float = 90 * DAY_S
    round_bytes: int = 512 * MIB
    keys_s: float = 7 * DAY_S
    keys: int = 1_000_000

    @property
    def room_bytes(self) -> int:
        """What a store takes at most, whatever happens; to it come the saved state and what was appended since."""
        return self.history_bytes + self.round_bytes + self.keys * KEY_BYTES

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 0:
                raise UsageError(f"retention {field.name}: {value} is below 0")

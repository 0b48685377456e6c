"""One run of a job as it really goes: when it trains, what it has saved, and what each of its GPU·ms came to.

Work is counted in units: a GPU in its best placement makes `FULL` of them in a millisecond, one whose gang lies wide
makes fewer. All times are whole milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.values.ids import JobId, NodeId

FULL = 1_000_000
"""Units of work of one GPU in one millisecond at full speed."""


@dataclass(frozen=True, slots=True)
class Split:
    """What the GPU·ms of a run came to; the sum is the run's GPUs times how long it had them.

    `useful` and `placement_loss` are training that was kept: the part that a best placement would have needed, and
    the rest. `lost` is training that was thrown away, and time in which the gang hung. `restart` is all the time from
    the booking of the GPUs until training goes on, `checkpoint` that in which checkpoints held training up.
    """

    useful: int = 0
    placement_loss: int = 0
    checkpoint: int = 0
    restart: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """All GPU·ms of the run."""
        return self.useful + self.placement_loss + self.checkpoint + self.restart + self.lost


@dataclass(slots=True)
class Run:
    """A run that has its GPUs. `rate` is the units that the whole gang makes in a millisecond, > 0.

    It trains from `trains_from` on, unknown (None) until all its tasks work: always `every` ms, then `cost` ms for a
    checkpoint (`every` 0: it makes none), which counts once it is `durable` ms old (None: never). `owed` are the units
    that were left to do when it began. `hung_at`: part of it died then, unnoticed so far.
    """

    job: JobId
    number: int
    gpus: int
    nodes: tuple[NodeId, ...]
    span: int
    rate: int
    booked_at: int
    owed: int
    every: int = 0
    cost: int = 0
    durable: int | None = 0
    restore: int = 0
    working: int = 0
    trains_from: int | None = None
    hung_at: int | None = None

    @property
    def cycle(self) -> int:
        """Milliseconds from one checkpoint to the next."""
        return self.every + self.cost

    def trained(self, now: int) -> int:
        """Return the milliseconds in which it has trained by an instant."""
        until = now if self.hung_at is None else min(now, self.hung_at)
        if self.trains_from is None or until <= self.trains_from:
            return 0
        elapsed = until - self.trains_from
        if not self.every:
            return elapsed
        whole, rest = divmod(elapsed, self.cycle)
        return whole * self.every + min(rest, self.every)

    def saved(self, now: int) -> int:
        """Return the milliseconds of training that checkpoints keep if the run is gone at an instant."""
        if not self.every or self.trains_from is None or self.durable is None:
            return 0
        until = now if self.hung_at is None else min(now, self.hung_at)
        return max(0, (until - self.trains_from - self.durable) // self.cycle) * self.every

    def units(self, trained: int) -> int:
        """Return the units that so many milliseconds of training make, at most what is owed."""
        return min(self.owed, trained * self.rate)

    def ends_at(self) -> int:
        """Return when its work is done, if nothing comes between; it trains."""
        assert self.trains_from is not None, "it trains"
        trains = -(-self.owed // self.rate)
        stops = (trains - 1) // self.every if self.every and trains else 0
        return self.trains_from + trains + stops * self.cost

    def at_training(self, trained: int) -> int:
        """Return the instant at which it has trained for so long, if nothing comes between; it trains."""
        assert self.trains_from is not None, "it trains"
        stops = (trained - 1) // self.every if self.every and trained else 0
        return self.trains_from + trained + stops * self.cost

    def split(self, now: int, kept: int) -> Split:
        """Return what its GPU·ms came to by an instant, where `kept` ms of its training count."""
        total = now - self.booked_at
        until = now if self.hung_at is None else min(now, self.hung_at)
        begins = until if self.trains_from is None else min(self.trains_from, until)
        waits = begins - self.booked_at
        trained = self.trained(now)
        kept = min(kept, trained)
        useful = kept * self.rate // FULL
        stalls = until - begins - trained
        return Split(
            useful=min(useful, kept * self.gpus),
            placement_loss=kept * self.gpus - min(useful, kept * self.gpus),
            checkpoint=stalls * self.gpus,
            restart=waits * self.gpus,
            lost=(total - waits - stalls - kept) * self.gpus,
        )

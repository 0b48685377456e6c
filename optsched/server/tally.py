"""Counts over all jobs, made anew only where something has changed since the last time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from optsched.engine.records import Records
from optsched.engine.state import JobRecord
from optsched.values.ids import JobId


@dataclass(slots=True)
class Tally:
    """Counts jobs by what `label` says of each, chunk by chunk. For one mapping after another of the same history."""

    label: Callable[[JobRecord], str]
    _known: dict[int, tuple[Mapping[JobId, JobRecord], Counter[str]]] = field(default_factory=dict)

    def of(self, *many: Mapping[JobId, JobRecord]) -> Counter[str]:
        """Return how many jobs of some mappings there are of each label."""
        there: dict[int, tuple[Mapping[JobId, JobRecord], Counter[str]]] = {}
        found: Counter[str] = Counter()
        for jobs in many:
            for chunk in Records.of(jobs).chunks():
                known = self._known.get(id(chunk))
                if known is None or known[0] is not chunk:
                    known = (chunk, Counter(self.label(record) for record in chunk.values()))
                there[id(chunk)] = known
                for label, count in known[1].items():
                    found[label] += count
        self._known = there
        return found

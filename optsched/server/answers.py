"""Answers given under idempotency keys: requests that come together look theirs up together."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from optsched.engine.ports import Store, print_of

MOST_PRINTS = 1_000_000
"""Of more keys no prints are kept, a hundred bytes each: then every key is looked up."""


@dataclass(slots=True)
class Answers:
    """Looks keys up, all that have been asked for while the last look was under way in one.

    Most keys are new. `prints` are those of all keys that the store held when this was made; those that are asked for
    come to them, whether anything is stored under them or not. A key whose print is not among them was never given.
    """

    store: Store
    prints: set[int]
    _wanted: dict[str, asyncio.Future[bytes | None]] = field(default_factory=dict)
    _looking: asyncio.Task[None] | None = None

    @property
    def overfull(self) -> bool:
        """Whether there are so many keys that no prints of more are kept: then every key may have been given."""
        return len(self.prints) >= MOST_PRINTS

    async def known(self, key: str) -> bytes | None:
        """Return the answer that was given under a key. Whoever stores one has asked for it here before.

        Raises StoreError.
        """
        own = print_of(key)
        if own not in self.prints and not self.overfull:
            self.prints.add(own)
            return None
        answer = self._wanted.get(key)
        if answer is None:
            answer = self._wanted[key] = asyncio.get_running_loop().create_future()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(answer)

    async def all_known(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """Return the answers that were given under keys."""
        return await asyncio.to_thread(self.store.known_keys, keys) if keys else {}

    async def _look(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            try:
                found = await asyncio.to_thread(self.store.known_keys, wanted)
            except Exception as error:
                for each in wanted.values():
                    each.set_exception(error)
                    # Who asked may be gone.
                    each.exception()
                continue
            for key, each in wanted.items():
                each.set_result(found.get(key))
        self._looking = None

"""A process that stores things as fast as it can and says on standard output what was acknowledged: to be killed.

`python -m tests.store.appender URL SEED`. Batch after batch, each with a key of the number of its last entry; a state
and a round now and then. Says `ack N` after entry N, `state N` after a state, `round N` after a round.
"""

from __future__ import annotations

import sys

import numpy as np

from optsched.store import open_store
from tests.store.places import record, submits

STATE = b'{"after": %d}'


def main(url: str, seed: int) -> None:
    """Go on from where the store stands, until somebody ends it."""
    draw = np.random.default_rng(seed)
    store = open_store(url)
    found = store.open()
    last = found.sequence + len(found.entries)
    number = max([each.number for each in store.rounds(None, 1)], default=0)
    while True:
        size = int(draw.integers(1, 40))
        store.append(submits(last + 1, last + size), {str(last + size): b"%d" % (last + 1)})
        last += size
        print(f"ack {last}", flush=True)
        if draw.random() < 0.2:
            store.save_state(last, STATE % last)
            print(f"state {last}", flush=True)
        if draw.random() < 0.2:
            number += 1
            store.add_round(record(number, plan=b"{}" * 5000))
            print(f"round {number}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""A training job that loses nothing when it is stopped, at whatever number of processes it goes on.

It trains a small network by gradient descent with momentum. Every step's batch is cut into the same `PIECES`, whatever
the number of ranks, and their gradients are added in one order; so the weights after a step are the same, bit by bit,
for any gang of 1 to `PIECES` ranks. It saves its state every so often and when it gets SIGTERM.

    python train.py --folder /shared/checkpoints/my-job --steps 500
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np
from checkpoints import Array, Saver, forget_after, keep_newest, name_of, newest
from gang import Gang, Stopped

PIECES = 8
INPUTS, HIDDEN, BATCH = 16, 32, 4
SAVE, STOP = 1, 2
LEARNING_RATE, MOMENTUM = 0.05, 0.9
WEIGHTS = INPUTS * HIDDEN + HIDDEN

told_to_stop = False


def on_sigterm(number: int, frame: object) -> None:
    """Only note it: the ranks stop together, after a step."""
    global told_to_stop
    told_to_stop = True


def report(**what: object) -> None:
    """Tell the agent something, by a line in the file that it reads; elsewhere nobody is told."""
    path = os.environ.get("OPTSCHED_REPORTS")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(what) + "\n")


def first_state(seed: int) -> Array:
    """Return the weights to begin with, and no momentum: one long array."""
    weights = np.random.default_rng(seed).normal(0, 0.3, WEIGHTS)
    return np.concatenate([weights, np.zeros(WEIGHTS)])


def gradient(weights: Array, seed: int, step: int, piece: int) -> Array:
    """Return the gradient of one piece of a step's batch: the data are drawn by step and piece alone."""
    inputs = np.random.default_rng([seed, step, piece]).normal(size=(BATCH, INPUTS))
    wanted = np.sin(inputs.sum(axis=1))
    first, second = weights[: INPUTS * HIDDEN].reshape(INPUTS, HIDDEN), weights[INPUTS * HIDDEN :]
    hidden = np.tanh(inputs @ first)
    error = hidden @ second - wanted
    to_first = inputs.T @ (np.outer(error, second) * (1 - hidden**2))
    return np.concatenate([to_first.ravel(), hidden.T @ error]) / (BATCH * PIECES)


def add_up(brought: list[bytes], save_due: bool) -> bytes:
    """Return what rank 0 tells all: whether to save or stop, and the sum of all pieces, always in one order."""
    flags = SAVE if save_due else 0
    total = np.zeros(WEIGHTS)
    for each in brought:
        flags |= each[0]
        for piece in np.frombuffer(each, offset=8).reshape(-1, WEIGHTS):
            total += piece
    return struct.pack("<Q", flags) + total.tobytes()


def train(gang: Gang, args: argparse.Namespace) -> int:
    """Train from the newest good checkpoint on; return an exit code."""
    state, step = first_state(args.seed), 0
    found = newest(args.folder, os.environ.get("OPTSCHED_RESTORE_VERSION", ""))
    if found is not None:
        state, step = found
    if gang.rank == 0:
        forget_after(args.folder, step)
    # Nobody writes before rank 0 has cleared away what comes after this step.
    gang.exchange(b"", lambda brought: b"")
    print(f"rank {gang.rank} of {gang.world} goes on after step {step}", flush=True)

    def told(version: str, step: int, size: int, taken_at: float) -> None:
        report(checkpoint=version, step=step, bytes=size, at=taken_at)
        keep_newest(args.folder, args.keep)

    saver = Saver(args.folder, gang.rank, gang.world, told)
    pieces = np.array_split(np.arange(PIECES), gang.world)[gang.rank]
    saved_at, stop = time.monotonic(), False
    while step < args.steps and not stop:
        began = time.monotonic()
        weights, speed = state[:WEIGHTS], state[WEIGHTS:]
        mine = np.concatenate([gradient(weights, args.seed, step, int(piece)) for piece in pieces])
        time.sleep(args.step_s)
        due = args.interval_s > 0 and time.monotonic() - saved_at >= args.interval_s
        flags = struct.pack("<Q", STOP if told_to_stop else 0)
        answer = gang.exchange(flags + mine.tobytes(), lambda brought, due=due: add_up(brought, due))
        speed = MOMENTUM * speed - LEARNING_RATE * np.frombuffer(answer, offset=8)
        state = np.concatenate([weights + speed, speed])
        step, stop = step + 1, bool(answer[0] & STOP)
        if stop or answer[0] & SAVE or step == args.steps:
            saver.save(state, step)
            saved_at = time.monotonic()
        if os.environ.get("LOCAL_RANK", "0") == "0" and step % 20 == 0:
            report(step=step, step_s=time.monotonic() - began)
    saver.finish()
    if step == args.steps:
        report(done=True)
        print(f"done after step {step}: {hashlib.sha256(state.tobytes()).hexdigest()}", flush=True)
    else:
        print(f"stopped after step {step}, saved as {name_of(step)}", flush=True)
    return 0


def main() -> int:
    """Join the gang and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for checkpoints; all ranks see it")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-s", type=float, default=0.0, help="seconds that every step takes longer, to look at it")
    parser.add_argument("--keep", type=int, default=3, help="versions that are kept")
    interval = float(os.environ.get("OPTSCHED_CHECKPOINT_INTERVAL_S") or 30.0)
    parser.add_argument("--interval-s", type=float, default=interval, help="seconds between checkpoints; 0: none")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        return train(Gang.join(lambda: told_to_stop), args)
    except Stopped:
        # Nothing was trained yet, so nothing is lost.
        return 0
    except OSError as error:
        print(f"the gang is broken: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())

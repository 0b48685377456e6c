"""The shipped probe: several processes reduce arrays over a ring and compare the sum with the one that must come out.

It finds hosts whose memory, cores or loopback are broken or far too slow, on any machine: NumPy over sockets. Where
PyTorch with CUDA is installed and GPUs are idle, the same is done once more on those, with NCCL, which tests their
memory and links. Values are whole numbers, so that the sum is exact in any order.

    python -m optsched.agent.allreduce [--processes N] [--mib M] [--least-gb-s X]
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def share(rank: int, count: int) -> Array:
    """Return what one process brings: whole numbers that tell ranks and places apart."""
    return (np.arange(count, dtype=np.float64) % 1021) * (rank + 1)


def expected(ranks: int, count: int) -> Array:
    """Return the sum that must come out."""
    return (np.arange(count, dtype=np.float64) % 1021) * (ranks * (ranks + 1) // 2)


def ring_sum(rank: int, ranks: int, mine: Array, right: socket.socket, left: socket.socket) -> Array:
    """Return the sum over all processes; each sends to its right and hears from its left, a piece at a time."""
    pieces = np.array_split(mine.copy(), ranks)
    for stage in range(2 * (ranks - 1)):
        reducing = stage < ranks - 1
        out = (rank - stage) % ranks if reducing else (rank + 1 - (stage - ranks + 1)) % ranks
        into = (out - 1) % ranks
        got = _swap(right, left, pieces[out], pieces[into].size)
        pieces[into] = pieces[into] + got if reducing else got
    return np.concatenate(pieces)


def _swap(right: socket.socket, left: socket.socket, piece: Array, size: int) -> Array:
    sender = threading.Thread(target=right.sendall, args=(piece.tobytes(),))
    sender.start()
    data = bytearray(size * 8)
    view = memoryview(data)
    while view:
        count = left.recv_into(view)
        if count == 0:
            raise ConnectionError("a neighbour of the ring is gone")
        view = view[count:]
    sender.join()
    return np.frombuffer(data, dtype=np.float64)


def _member(rank: int, ranks: int, count: int, listener: socket.socket, next_port: int, tell: Connection) -> None:
    """One process of the ring; tells how many values are wrong."""
    right = socket.create_connection(("127.0.0.1", next_port), timeout=60)
    left, _ = listener.accept()
    left.settimeout(60)
    found = ring_sum(rank, ranks, share(rank, count), right, left)
    tell.send(int(np.count_nonzero(found != expected(ranks, count))))


def over_sockets(ranks: int, count: int) -> tuple[int, float]:
    """Return how many values came out wrong over all processes, and the seconds it took."""
    context = multiprocessing.get_context("fork")
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(ranks)]
    ports = [each.getsockname()[1] for each in listeners]
    began = time.monotonic()
    members = []
    for rank in range(ranks):
        hear, tell = context.Pipe(duplex=False)
        args = (rank, ranks, count, listeners[rank], ports[(rank + 1) % ranks], tell)
        process = context.Process(target=_member, args=args, daemon=True)
        process.start()
        tell.close()
        members.append((process, hear))
    wrong = 0
    try:
        for process, hear in members:
            try:
                wrong += hear.recv()
            except EOFError:
                raise ConnectionError(f"a process of the ring ended with {process.exitcode}") from None
            process.join()
    finally:
        for process, _ in members:
            process.kill()
            process.join()
        for each in listeners:
            each.close()
    return wrong, time.monotonic() - began


def over_gpus(count: int) -> str:
    """Reduce over the idle GPUs with NCCL; return what was found wrong, "" for nothing or where that cannot be done."""
    if not os.environ.get("OPTSCHED_PROBE_GPUS") or importlib.util.find_spec("torch") is None:
        return ""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus == 0:
        return ""
    tensors = [torch.from_numpy(share(rank, count)).to(f"cuda:{rank}") for rank in range(gpus)]
    if gpus > 1:
        outputs = [torch.empty_like(each) for each in tensors]
        torch.cuda.nccl.all_reduce(tensors, outputs=outputs)
        tensors = outputs
    want = expected(gpus, count)
    for rank, tensor in enumerate(tensors):
        wrong = int(np.count_nonzero(tensor.cpu().numpy() != want))
        if wrong:
            return f"GPU {rank} of those that are idle: {wrong} of {count} values are wrong"
    return ""


def main(argv: list[str] | None = None) -> int:
    """Probe; print what was found in a line, and return 0 for a pass, 1 else."""
    parser = argparse.ArgumentParser(description="Reduce arrays over processes and GPUs, and compare the sums.")
    parser.add_argument("--processes", type=int, default=2, help="of the ring, 2 to 64 (default 2)")
    parser.add_argument("--mib", type=float, default=8.0, help="MiB that each reduces (default 8)")
    parser.add_argument(
        "--least-gb-s", type=float, default=0.0, help="reduced slower than that is a failure (default 0)"
    )
    args = parser.parse_args(argv)
    ranks, count = max(2, min(64, args.processes)), max(1, int(args.mib * 131072))
    try:
        wrong, took_s = over_sockets(ranks, count)
        gpu_fault = over_gpus(count)
    except (OSError, RuntimeError) as error:
        sys.stdout.write(f"all-reduce failed: {error}\n")
        return 1
    speed = count * 8 / 1e9 / max(took_s, 1e-9)
    if wrong:
        sys.stdout.write(f"all-reduce: {wrong} of {ranks * count} values are wrong\n")
    elif gpu_fault:
        sys.stdout.write(f"all-reduce: {gpu_fault}\n")
    elif speed < args.least_gb_s:
        sys.stdout.write(f"all-reduce: {speed:.3f} GB/s, and {args.least_gb_s:g} is the least\n")
    else:
        sys.stdout.write(f"all-reduce: {ranks} processes, {speed:.3f} GB/s\n")
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())

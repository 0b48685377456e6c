"""The same kind of job in PyTorch: it saves on SIGTERM and every so often, and goes on at any number of ranks.

A process for each rank, started by optsched itself (`gpus_per_task: 1`) or by torchrun (`gpus_per_node`). Every step's
batch is cut into the same `PIECES` and their gradients are summed over all ranks, so the size of the gang does not
change what is learnt, but for the rounding of sums.

    python train_torch.py --folder /shared/checkpoints/my-job --steps 500
    torchrun train_torch.py --folder /shared/checkpoints/my-job --steps 500
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import whole
from checkpoints import forget_after, keep_newest, name_of
from torch import distributed, nn

PIECES, BATCH, INPUTS, HIDDEN = 8, 4, 16, 32

told_to_stop = False


def on_sigterm(number: int, frame: object) -> None:
    """Only note it: the ranks stop together, after a step."""
    global told_to_stop
    told_to_stop = True


def join() -> torch.device:
    """Come together as the environment says; return the device of this rank."""
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    gpus = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if gpus else "gloo")
    return device


def loss_of(model: nn.Module, seed: int, step: int, piece: int, device: torch.device) -> torch.Tensor:
    """Return the loss on one piece of a step's batch: the data are drawn by step and piece alone."""
    draw = torch.Generator().manual_seed((seed * 1_000_003 + step) * PIECES + piece)
    inputs = torch.randn(BATCH, INPUTS, generator=draw).to(device)
    wanted = torch.sin(inputs.sum(dim=1, keepdim=True))
    loss: torch.Tensor = nn.functional.mse_loss(model(inputs), wanted) / PIECES
    return loss


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, args: Any, step: int, device: torch.device) -> None:
    """Do one step, together with all ranks."""
    optimizer.zero_grad(set_to_none=False)
    for piece in whole.share(PIECES, distributed.get_rank(), distributed.get_world_size()):
        loss_of(model, args.seed, step, piece, device).backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            # This rank has no piece: it adds nothing to the sum.
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)
    optimizer.step()


def agreed(save: bool, stop: bool, device: torch.device) -> tuple[bool, bool]:
    """Return whether any rank wants to save, and whether any was told to stop: all of them hear the same."""
    flags = torch.tensor([float(save), float(stop)], device=device)
    distributed.all_reduce(flags, distributed.ReduceOp.MAX)
    return bool(flags[0]), bool(flags[1])


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, keep: int) -> None:
    """Save the state after a step: every rank has all of it, so rank 0 writes it, and the others wait."""
    if distributed.get_rank() == 0:
        taken_at, buffer = time.time(), io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
        name = whole.save(folder, step, buffer.getvalue())
        whole.report(checkpoint=name, step=step, bytes=buffer.tell(), at=taken_at)
        keep_newest(folder, keep)
    distributed.barrier()


def train(args: argparse.Namespace, device: torch.device) -> int:
    """Train from the newest good version on."""
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def read(data: bytes) -> dict[str, Any]:
        found: dict[str, Any] = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
        return found

    found, step = whole.newest(args.folder, os.environ.get("OPTSCHED_RESTORE_VERSION", ""), read), 0
    if found is not None:
        state, step = found
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    rank, world = distributed.get_rank(), distributed.get_world_size()
    if rank == 0:
        forget_after(args.folder, step)
    distributed.barrier()
    print(f"rank {rank} of {world} goes on after step {step}", flush=True)
    saved_at, stop = time.monotonic(), False
    while step < args.steps and not stop:
        began = time.monotonic()
        learn(model, optimizer, args, step, device)
        time.sleep(args.step_s)
        step += 1
        wanted, stop = agreed(whole.due(time.monotonic(), saved_at, args.interval_s), told_to_stop, device)
        if wanted or stop or step == args.steps:
            save(args.folder, model, optimizer, step, args.keep)
            saved_at = time.monotonic()
        if os.environ.get("LOCAL_RANK", "0") == "0" and step % 20 == 0:
            whole.report(step=step, step_s=time.monotonic() - began)
    if step == args.steps:
        whole.report(done=True)
        norm = sum(float(each.detach().double().pow(2).sum()) for each in model.parameters())
        print(f"done after step {step}: {norm:.6f}", flush=True)
    else:
        print(f"stopped after step {step}, saved as {name_of(step)}", flush=True)
    return 0


def main() -> None:
    """Join the gang, train, and end with the exit code."""
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
    code = train(args, join())
    sys.stdout.flush()
    # Ranks leave one after the other. One that takes the group apart when others are gone may be aborted by gloo, after
    # work that went well: so nothing is taken apart.
    os._exit(code)


if __name__ == "__main__":
    main()

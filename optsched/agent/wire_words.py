"""The contract's messages as the core's, and back."""

from __future__ import annotations

from collections.abc import Mapping

from optsched.agent import messages as m
from optsched.agent.values import Key, Outcome, Pending, Phase, Probed, Run, Said, StartSpec, State, Task
from optsched.wire.v1 import agent_pb2 as wire

PHASES: Mapping[Phase, wire.RunPhase] = {
    Phase.RESERVING: wire.RUN_PHASE_RESERVED,
    Phase.RESERVED: wire.RUN_PHASE_RESERVED,
    Phase.STARTING: wire.RUN_PHASE_RESERVED,
    Phase.RUNNING: wire.RUN_PHASE_STARTED,
    Phase.STOPPING: wire.RUN_PHASE_STOPPING,
    Phase.KILLING: wire.RUN_PHASE_STOPPING,
    Phase.ENDED: wire.RUN_PHASE_ENDED,
}
OUTCOMES = {each: wire.Outcome.Value(f"OUTCOME_{each.name}") for each in Outcome}


def key_of(header: wire.CommandHeader) -> Key:
    """Return the run that a command is about."""
    return Key(header.job, header.run)


def command_of(message: wire.SchedulerMessage) -> m.Message | None:
    """Return a command as the core takes it; None for what is not the core's business."""
    match message.WhichOneof("body"):
        case "registered":
            return m.Registered(message.registered.epoch)
        case "reserve":
            asked = message.reserve
            return m.Reserve(asked.header.epoch, key_of(asked.header), asked.gpus, tuple(asked.gpu_indices))
        case "start":
            return m.Start(message.start.header.epoch, key_of(message.start.header), _start(message.start))
        case "signal":
            told = message.signal
            return m.Signal(told.header.epoch, key_of(told.header), max(0.0, told.grace_s), told.reason)
        case "kill":
            return m.Kill(message.kill.header.epoch, key_of(message.kill.header), message.kill.reason)
        case "release":
            return m.Release(message.release.header.epoch, key_of(message.release.header))
        case "probe":
            return m.Probe(message.probe.epoch, message.probe.probe)
        case _:
            return None


def _start(start: wire.Start) -> StartSpec:
    tasks = tuple(
        Task(each.rank, each.local_rank, tuple(each.gpu_indices), each.gpus, tuple(each.slice)) for each in start.tasks
    )
    return StartSpec(
        tuple(start.command),
        dict(start.environment),
        start.working_directory,
        start.user,
        start.team,
        tasks,
        start.world_size,
        start.node_count,
        start.node_rank,
        start.gang_gpus,
        start.master_address,
        start.master_port,
        start.restore_version,
        start.checkpoint_interval_s,
        start.checkpoint_on_signal,
        start.grace_period_s,
        start.cpus,
        start.memory_gb,
        start.array_index if start.HasField("array_index") else None,
    )


def held(state: State) -> list[wire.HeldRun]:
    """Return all runs of a node: what is at work, set aside, or not known to be released."""
    return [_held(run) for run in state.runs.values()]


def _held(run: Run) -> wire.HeldRun:
    return wire.HeldRun(job=run.key.job, run=run.key.run, phase=PHASES[run.phase], gpu_indices=run.gpus, port=run.port)


def spoken(pending: Pending, epoch: int, now: float) -> wire.AgentMessage:
    """Return what waits to be said as a message, under the epoch of the stream that carries it; without a sequence."""
    if isinstance(pending, Said):
        report = wire.Report(
            job=pending.key.job,
            run=pending.key.run,
            epoch=epoch,
            outcome=OUTCOMES[pending.outcome],  # type: ignore[arg-type]
            why=pending.why,
            exit_code=pending.exit_code,
            exit_signal=pending.exit_signal,
            rank=pending.rank,
            port=pending.port,
            at=pending.at,
        )
        return wire.AgentMessage(report=report)
    if isinstance(pending, Probed):
        return wire.AgentMessage(probe=wire.ProbeResult(ok=pending.ok, why=pending.why, probe=pending.probe))
    checkpoint = wire.Checkpoint(
        job=pending.key.job,
        run=pending.key.run,
        version=pending.version,
        tier=pending.tier,
        age_s=max(0.0, now - pending.taken_at),
        bytes=pending.bytes,
        step=pending.step,
    )
    return wire.AgentMessage(checkpoint=checkpoint)

"""optsched agent: what runs on every node."""

from __future__ import annotations

import argparse

from optsched.agent.settings import PREFIX, Settings
from optsched.cli.terminal import tell
from optsched.files.settings import flag_of, load

DESCRIPTION = """\
Serve one node: set its GPUs aside for jobs, start their tasks, stop them, report.
Runs until SIGTERM or SIGINT; tasks go on without it, and the next start finds them."""

EPILOG = """\
Each setting comes from its flag, else from the environment (OPTSCHED_AGENT_ and the
flag in capitals: OPTSCHED_AGENT_STATE_DIR), else from the file that --config or
OPTSCHED_AGENT_CONFIG names (state_dir: ...), else from its default.

examples:
  optsched agent --scheduler head:7440 --domains block=b1,rack=r7
  optsched agent --gpus 8 --gpu-type h100 --run-as agent    declared GPUs, for trying out"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("agent", help="serve one node of a cluster", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--config", metavar="FILE", help="a YAML or JSON file with settings")
    group = parser.add_argument_group("settings")
    for key, field in Settings.model_fields.items():
        default = "" if field.default in (None, "") else f" (default: {field.default})"
        group.add_argument(flag_of(key), metavar="VALUE", dest=key, help=f"{field.description}{default}")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to end."""
    import asyncio
    import os

    from optsched.agent.nvml import find_gpus
    from optsched.agent.serve import serve
    from optsched.server.logs import set_up

    flags = {key: given for key in Settings.model_fields if (given := getattr(args, key)) is not None}
    settings = load(Settings, PREFIX, flags, os.environ, args.config)
    _ = settings.port_range, settings.access
    set_up(settings.log_level, settings.log_format)
    gpus = find_gpus(settings.gpus, settings.gpu_type or "")
    tell(f"optsched agent: {settings.name} with {gpus.count} GPUs, for {settings.scheduler}")
    why = asyncio.run(serve(settings, gpus))
    if why is None:
        return 0
    tell(f"optsched agent: failed: {why}")
    return 1

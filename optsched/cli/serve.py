"""optsched serve: the scheduler as a service."""

from __future__ import annotations

import argparse

from optsched.cli.terminal import tell
from optsched.files.settings import flag_of
from optsched.server.settings import Settings, load_settings

DESCRIPTION = """\
Serve the scheduler: gRPC for front ends, operators and agents, and REST/JSON beside it.
Runs until SIGTERM or SIGINT, then ends in order."""

EPILOG = """\
Each setting comes from its flag, else from the environment (OPTSCHED_ and the flag
in capitals: OPTSCHED_GRPC_LISTEN), else from the file that --config or OPTSCHED_CONFIG
names (grpc_listen: ...), else from its default.

examples:
  optsched serve                                     on this machine, agents may join
  optsched serve --cluster h100-10k --profile quota
  optsched serve --config /etc/optsched.yaml --grpc-listen 0.0.0.0:7440"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("serve", help="serve gRPC, REST and agents", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--config", metavar="FILE", help="a YAML or JSON file with settings")
    group = parser.add_argument_group("settings")
    for key, field in Settings.model_fields.items():
        shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
        default = "" if field.default is None else f" (default: {shown})"
        group.add_argument(flag_of(key), metavar="VALUE", dest=key, help=f"{field.description}{default}")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to end."""
    import asyncio
    import os

    from optsched.server.logs import set_up
    from optsched.server.serve import Service, serve

    flags = {key: given for key in Settings.model_fields if (given := getattr(args, key)) is not None}
    settings = load_settings(flags, os.environ, args.config)
    set_up(settings.log_level, settings.log_format)

    def ready(service: Service) -> None:
        tell(f"optsched serves: gRPC {service.grpc_address or 'off'}, REST {service.rest_address or 'off'}")

    asyncio.run(serve(settings, ready))
    return 0

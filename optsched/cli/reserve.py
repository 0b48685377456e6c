"""optsched reserve: maintenance windows and grants of a running service."""

from __future__ import annotations

import argparse

from optsched.cli.service import add_service, as_json, client_of, instant, say_json, span, style, whole
from optsched.cli.terminal import say, tell, warn, width
from optsched.errors import UsageError

DESCRIPTION = """\
Without an id: list maintenance windows and grants. With one: create it or replace it,
or withdraw it with --drop (operators).
With --nodes it is a maintenance window: those nodes are empty from its start to its
end. With --gpus it is a grant: so many GPUs are kept for teams and jobs, whose use of
them is guaranteed."""

EPILOG = """\
examples:
  optsched reserve
  optsched reserve firmware --nodes n1,n2 --start 2026-12-01T20:00:00Z --for 4h
  optsched reserve paper --gpus 512 --within b3 --team vision --for 3d
  optsched reserve paper --drop"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "reserve", help="maintenance windows and grants of a service", description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="the reservation's id")
    parser.add_argument("--start", metavar="AT", type=instant, help="from when on, in RFC 3339 (default: now)")
    parser.add_argument("--end", metavar="AT", type=instant, help="until when")
    parser.add_argument(
        "--for", metavar="TIME", type=span, dest="length", help="for how long, such as 4h, in place of --end"
    )
    parser.add_argument("--nodes", metavar="NODE,NODE", help="of a maintenance window: its nodes")
    parser.add_argument("--gpus", metavar="N", type=whole(1, 1_000_000), help="of a grant: how many GPUs")
    parser.add_argument("--within", metavar="NAME", help="of a grant: inside this domain or node (default: anywhere)")
    parser.add_argument("--team", action="append", metavar="TEAM", help="of a grant: for this team; may be repeated")
    parser.add_argument("--job", action="append", metavar="JOB", help="of a grant: for this job; may be repeated")
    parser.add_argument("--drop", action="store_true", help="withdraw it")
    add_service(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List, set or withdraw."""
    given = [key for key in ("start", "end", "length", "nodes", "gpus", "within", "team", "job") if getattr(args, key)]
    if args.id is None and (given or args.drop):
        raise UsageError(
            "reserve: ID is missing; allowed: an id for what is set or withdrawn, or nothing else, to list"
        )
    if args.drop and given:
        raise UsageError("reserve: --drop is given with what to set; allowed: one of them")
    if args.id is None:
        return _list(args)
    if args.drop:
        with client_of(args) as client:
            dropped = client.drop_reservation(args.id)
        if args.format == "json":
            say_json(as_json(dropped))
        else:
            say(args.id)
        return 0
    return _set(args)


def _list(args: argparse.Namespace) -> int:
    with client_of(args) as client:
        found = client.reservations()
        now = client.status().now_at
    if args.format == "json":
        say_json(as_json(found))
    elif found.reservations:
        from optsched.cli.render_service import reservations_to_text

        say(reservations_to_text(found.reservations, now, width(), style()))
    else:
        tell("no reservations")
    return 0


def _set(args: argparse.Namespace) -> int:
    from optsched.client import Reservation
    from optsched.wire.v1 import types_pb2

    if (args.nodes is None) == (args.gpus is None):
        raise UsageError(
            "reserve: names no nodes and no GPUs, or both; allowed: --nodes for maintenance, --gpus for a grant"
        )
    if (args.end is None) == (args.length is None):
        raise UsageError("reserve: its end is missing, or given twice; allowed: --end or --for")
    grant = args.gpus is not None
    kind = types_pb2.RESERVATION_KIND_GRANT if grant else types_pb2.RESERVATION_KIND_MAINTENANCE
    with client_of(args) as client:
        start = client.status().now_at if args.start is None else args.start
        answer = client.set_reservation(
            Reservation(
                id=args.id,
                kind=kind,
                start_at=start,
                end_at=start + args.length if args.end is None else args.end,
                nodes=args.nodes.split(",") if args.nodes else (),
                gpus=args.gpus,
                within=args.within or "",
                teams=args.team or (),
                jobs=args.job or (),
            )
        )
    for text in answer.warnings:
        warn(text)
    if args.format == "json":
        say_json(as_json(answer))
    else:
        say(args.id)
    return 0

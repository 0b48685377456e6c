"""optsched rounds: what the service has decided."""

from __future__ import annotations

import argparse

from optsched.cli.service import add_service, as_json, client_of, say_json, style, whole
from optsched.cli.terminal import say, tell, width


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "List rounds, the newest first; with a number, tell what that round decided."
    parser = commands.add_parser("rounds", help="rounds that a service has planned", description=text)
    parser.add_argument("number", metavar="ROUND", nargs="?", type=whole(1, 2**63 - 1), help="the number of a round")
    parser.add_argument("--limit", metavar="N", type=whole(1, 1000), default=20, help="at most so many (default 20)")
    parser.add_argument("--page-token", metavar="TOKEN", default="", help="go on after the page that ended with it")
    add_service(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List rounds, or tell of one."""
    from optsched.cli.render_service import round_to_text, rounds_to_text

    with client_of(args) as client:
        now = client.status().now_at
        if args.number is not None:
            found = client.round(args.number)
            if args.format == "json":
                say_json(as_json(found))
            else:
                say(round_to_text(found, now, width(), style()))
            return 0
        page = client.rounds(args.limit, args.page_token)
    if args.format == "json":
        say_json(as_json(page))
    elif page.rounds:
        say(rounds_to_text(page.rounds, now, width(), style()))
        if page.next_page_token:
            tell(f"more: --page-token {page.next_page_token}")
    else:
        tell("no rounds")
    return 0

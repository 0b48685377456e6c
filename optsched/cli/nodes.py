"""optsched status, nodes, cordon, uncordon, drain, fence: the cluster of a running service."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from optsched.cli.jobs import each_of
from optsched.cli.service import add_service, as_json, client_of, say_json, style, whole
from optsched.cli.terminal import say, tell, width
from optsched.cli.words import clean, count

if TYPE_CHECKING:
    from optsched.wire.v1 import types_pb2 as t

STATES = ("up", "draining", "cordoned", "suspect", "probing", "down")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    parser = commands.add_parser("status", help="how a service stands", description="Say how the service stands.")
    add_service(parser)
    parser.set_defaults(run=run_status)

    parser = commands.add_parser("nodes", help="list the nodes of a service", description="List nodes, by their ids.")
    parser.add_argument("nodes", metavar="NODE", nargs="*", help="these nodes (default: all)")
    parser.add_argument("--state", action="append", choices=STATES, help="in this state; may be given more than once")
    parser.add_argument("--domain", metavar="NAME", default="", help="in this domain, by its whole path")
    parser.add_argument("--limit", metavar="N", type=whole(1, 1000), default=100, help="at most so many (default 100)")
    parser.add_argument("--page-token", metavar="TOKEN", default="", help="go on after the page that ended with it")
    parser.add_argument("--ids", action="store_true", help="print the ids alone, a line each")
    add_service(parser)
    parser.set_defaults(run=run_nodes)

    for name, what in (
        ("cordon", "close nodes to new work"),
        ("uncordon", "open nodes again, once their probe has passed"),
        ("drain", "close nodes and move what they run elsewhere"),
        ("fence", "state that nothing runs any more on lost nodes: they were switched off"),
    ):
        parser = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]} (operators).")
        parser.add_argument("nodes", metavar="NODE", nargs="+", help="the ids of nodes")
        if name != "uncordon":
            parser.add_argument("--reason", metavar="TEXT", default="", help="why: shown with the node")
        add_service(parser)
        parser.set_defaults(run=run_change, change=name)


def run_status(args: argparse.Namespace) -> int:
    """Say how the scheduler stands."""
    with client_of(args) as client:
        found = client.status()
    if args.format == "json":
        say_json(as_json(found))
        return 0
    jobs = ", ".join(f"{many:,} {state}" for state, many in sorted(found.jobs_by_state.items()) if many) or "none"
    lines = [
        f"scheduler {clean(found.version)}, {'leads' if found.leads else 'does not lead'}, epoch {found.epoch}",
        f"nodes  {count(found.nodes, 'node')}, {found.agents_connected:,} with an agent",
        f"GPUs   {found.gpus:,} of which {found.gpus_healthy:,} healthy, {found.gpus_free:,} free",
        f"jobs   {jobs}",
    ]
    if found.paused:
        lines.append(style().bad(f"paused: {clean(found.paused)}"))
    say("\n".join(lines))
    return 0


def run_nodes(args: argparse.Namespace) -> int:
    """List a page of nodes, or those that are named."""
    from optsched.wire.v1 import cluster_pb2

    with client_of(args) as client:
        if args.nodes:
            found = [client.node(name) for name in args.nodes]
            page = cluster_pb2.ListNodesResponse(nodes=found, total=len(found))
        else:
            states = [_state(word) for word in args.state or ()]
            page = client.page_of_nodes(states, args.domain, args.limit, args.page_token)
        now = client.status().now_at
    if args.format == "json":
        say_json(as_json(page))
        return 0
    if args.ids:
        if page.nodes:
            say("\n".join(node.spec.id for node in page.nodes))
    elif page.nodes:
        from optsched.cli.render_service import nodes_to_text

        say(nodes_to_text(page.nodes, now, width(), style()))
    else:
        tell("no nodes")
    if page.next_page_token:
        tell(f"{len(page.nodes)} of {page.total:,} nodes; more: --page-token {page.next_page_token}")
    return 0


def _state(word: str) -> t.NodeState:
    """Return the state that a word names."""
    from optsched.wire.v1 import types_pb2

    return types_pb2.NodeState.Value(f"NODE_STATE_{word.upper()}")  # type: ignore[return-value]


def run_change(args: argparse.Namespace) -> int:
    """Do the same to each node; what one is refused does not keep it from the others."""
    from optsched.client import word

    with client_of(args) as client:
        does: dict[str, Callable[[str], t.Node]] = {
            "cordon": lambda node: client.cordon(node, args.reason),
            "drain": lambda node: client.drain(node, args.reason),
            "fence": lambda node: client.fence(node, args.reason),
            "uncordon": client.uncordon,
        }

        def one(name: str) -> None:
            node = does[args.change](name)
            if args.format == "json":
                say_json({"node": as_json(node)})
            else:
                say(node.spec.id)
                tell(f"{clean(node.spec.id)}: it is {word(node)}")

        return each_of(args.nodes, one)

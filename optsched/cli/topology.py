"""optsched topology: what a cluster looks like, and what looks wrong in it."""

from __future__ import annotations

import argparse
import sys

from optsched.cli.options import add_format
from optsched.cli.terminal import Style, say, shows_colour, warn, width

SOURCE = "a name (see optsched topology list), or the path of a YAML or JSON file"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the group of commands."""
    text = "look at a description of a cluster"
    group = commands.add_parser("topology", help=text, description=text.capitalize() + ".")
    actions = group.add_subparsers(metavar="ACTION", dest="action", required=True)
    show = actions.add_parser(
        "show",
        help="the tree of domains, sizes per level, GPU types, NVLink",
        description="Show the tree of domains, equal siblings taken together, sizes per level, GPU types and NVLink.",
    )
    show.add_argument("source", metavar="NAME|PATH", help=SOURCE)
    add_format(show)
    show.set_defaults(run=run_show)
    validate = actions.add_parser(
        "validate",
        help="check a description: exit code 0 if it can be used, 2 if not",
        description="Check a description: oddities are warnings (exit code 0), faults a line each (exit code 2).",
    )
    validate.add_argument("source", metavar="NAME|PATH", help=SOURCE)
    validate.set_defaults(run=run_validate)
    listing = actions.add_parser("list", help="the clusters that come with optsched", description="List the clusters.")
    add_format(listing)
    listing.set_defaults(run=run_list)


def run_show(args: argparse.Namespace) -> int:
    """Describe a cluster."""
    from optsched.cli.render_topology import topology_to_json, topology_to_text
    from optsched.files import load_cluster
    from optsched.topology.tree import build_tree
    from optsched.topology.validate import describe

    cluster = load_cluster(args.source)
    tree = build_tree(cluster)
    description = describe(cluster, tree)
    if args.format == "json":
        say(topology_to_json(description))
    else:
        say(topology_to_text(cluster, tree, description, width=width(), style=Style(shows_colour(sys.stdout))))
    return 0


def run_validate(args: argparse.Namespace) -> int:
    """Check a cluster; faults of its file are raised on the way."""
    from optsched.cli.render_topology import verdict
    from optsched.files import load_cluster
    from optsched.topology.tree import build_tree
    from optsched.topology.validate import describe

    cluster = load_cluster(args.source)
    description = describe(cluster, build_tree(cluster))
    for finding in description.findings:
        warn(finding.text)
    say(verdict(args.source, description))
    return 0


def run_list(args: argparse.Namespace) -> int:
    """List the shipped clusters."""
    from optsched.cli.render_topology import clusters_to_json, clusters_to_text
    from optsched.files import load_cluster, shipped_names
    from optsched.topology.tree import build_tree
    from optsched.topology.validate import describe

    found = {}
    for name in shipped_names("topologies"):
        cluster = load_cluster(name)
        found[name] = describe(cluster, build_tree(cluster))
    if args.format == "json":
        say(clusters_to_json(found))
    else:
        say(clusters_to_text(found, width=width(), style=Style(shows_colour(sys.stdout))))
    return 0

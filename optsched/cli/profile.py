"""optsched profile: the knobs of a round."""

from __future__ import annotations

import argparse
import sys

from optsched.cli.options import add_format
from optsched.cli.terminal import Style, say, shows_colour, width


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the group of commands."""
    text = "look at scheduling profiles"
    group = commands.add_parser("profile", help=text, description=text.capitalize() + ".")
    actions = group.add_subparsers(metavar="ACTION", dest="action", required=True)
    listing = actions.add_parser("list", help="the profiles that come with optsched", description="List the profiles.")
    add_format(listing)
    listing.set_defaults(run=run_list)
    show = actions.add_parser(
        "show",
        help="every knob, and where it differs from the default",
        description="Show every knob of a profile, bases followed, and where it differs from the default.",
    )
    show.add_argument(
        "source", metavar="NAME|PATH", help="a name (see optsched profile list), or the path of a YAML or JSON file"
    )
    add_format(show)
    show.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    """List the shipped profiles."""
    from optsched.cli.render_profile import profiles_to_json, profiles_to_text
    from optsched.files import load_profile, shipped_names

    found = {name: load_profile(name) for name in shipped_names("models")}
    if args.format == "json":
        say(profiles_to_json(found))
    else:
        say(profiles_to_text(found, width=width(), style=Style(shows_colour(sys.stdout))))
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Show one profile."""
    from optsched.cli.render_profile import profile_to_json, profile_to_text
    from optsched.files import load_profile

    profile, default = load_profile(args.source), load_profile("default")
    if args.format == "json":
        say(profile_to_json(profile))
    else:
        say(profile_to_text(profile, default, width=width(), style=Style(shows_colour(sys.stdout))))
    return 0

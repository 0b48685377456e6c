"""optsched bench: how good placements are, ours and those of others."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from optsched.cli.options import add_format, seconds, seed
from optsched.cli.terminal import Progress, Style, say, shows_colour, width
from optsched.cli.words import clean
from optsched.clock import WallClock
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.files.plans import GivenPlan
    from optsched.sim.policies.policy import Policy
    from optsched.sim.quality.collection import Round

DESCRIPTION = """\
Score placements on hard rounds against the best known plan and what is proven
about it: those of policies, and of any other engine as a plan file (the JSON
that optsched plan --format json writes; starts, preemptions, migrations and
resizes count). An independent checker looks at every plan; one that breaks a
rule is not carried out, and its round counts as left as it is."""

EPILOG = """\
policies:
{policies}
examples:
  optsched bench quality                                every policy, every round
  optsched bench quality --list                         the rounds, what is hard
  optsched bench quality --round floors --policy greedy
  optsched bench quality --export rounds                the rounds, as snapshots
  optsched bench quality --round floors --plan my.json  another engine's plan
  optsched bench quality --round busy.json.gz --format json"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the group of commands."""
    text = "measure how good placements are"
    group = commands.add_parser("bench", help=text, description=text.capitalize() + ".")
    actions = group.add_subparsers(metavar="ACTION", dest="action", required=True)
    from optsched.sim.policies.names import ABOUT

    told = "".join(
        textwrap.fill(about, 79, initial_indent=f"  {name:<20} ", subsequent_indent=" " * 23) + "\n"
        for name, about in ABOUT.items()
    )
    parser = actions.add_parser(
        "quality",
        help="score policies and plan files on hard rounds",
        description=DESCRIPTION,
        epilog=EPILOG.format(policies=told),
    )
    parser.add_argument(
        "--round",
        metavar="NAME|PATH",
        action="append",
        default=[],
        help="one of --list, or a snapshot's file; may be given often (default: all of --list)",
    )
    parser.add_argument("--policy", metavar="NAME,...", action="append", default=[], help="default: all, below")
    parser.add_argument("--plan", metavar="FILE", action="append", default=[], help="a plan of the one --round")
    parser.add_argument(
        "--deterministic", metavar="S", type=seconds, default=0.5, help="counted seconds of search (default 0.5)"
    )
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="seed of the solver (default 0)")
    parser.add_argument("--list", action="store_true", help="tell what rounds there are, and nothing else")
    parser.add_argument("--export", metavar="FOLDER", help="write the rounds there as files, and do nothing else")
    parser.add_argument("--all", action="store_true", help="every entry of every round (text)")
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Score and print."""
    from optsched.cli.render_quality import rounds_to_json, rounds_to_text, scored_to_json, scored_to_text
    from optsched.sim.policies.policy import Means
    from optsched.sim.quality.collection import load_round, round_names
    from optsched.sim.quality.measure import score_all

    style = Style(shows_colour(sys.stdout))
    policies = _policies(args)
    if args.plan and len(args.round) != 1:
        raise UsageError(
            f"--plan: given with {len(args.round)} rounds; allowed: with one --round, which it is a plan of"
        )
    if args.export:
        return _export(args.export, args.round)
    rounds = [load_round(name) for name in dict.fromkeys(args.round or round_names())]
    for given in rounds:
        _check_mode(given)
    if args.list:
        say(rounds_to_json(rounds) if args.format == "json" else rounds_to_text(rounds, width(), style))
        return 0
    plans = _plans(args.plan, rounds)
    clock = WallClock()
    with Progress(clock) as progress:
        means = Means(args.seed, args.deterministic)
        scored = score_all(rounds, policies, means, clock, plans, progress.report)
    if args.format == "json":
        say(scored_to_json(scored))
    else:
        say(scored_to_text(scored, width(), style, args.all))
    return 0


def _export(target: str, names: list[str]) -> int:
    """Write rounds to a folder, for other engines to read."""
    from optsched.files.report import known
    from optsched.sim.quality.collection import export, round_names

    shipped = round_names()
    for name in names:
        if name not in shipped:
            raise UsageError(f"--round: given {clean(name)!r}; allowed: {known(list(shipped), name, 'one of', 40)}")
    if not Path(target).is_dir():
        raise UsageError(f"--export: given {clean(target)!r}, which is no folder; allowed: a folder that exists")
    for file in export(list(dict.fromkeys(names)) or list(shipped), Path(target)):
        say(clean(str(file)))
    return 0


def _policies(args: argparse.Namespace) -> list[Policy]:
    """Return the policies that are asked for: all, or with a plan file none, where none is named."""
    from optsched.files.report import known
    from optsched.sim.policies.registry import POLICIES

    given = [name for text in args.policy for name in text.split(",")]
    names = list(dict.fromkeys(given)) if given else [] if args.plan else list(POLICIES)
    for name in names:
        if name not in POLICIES:
            allowed = known(list(POLICIES), name, "one of", 20)
            raise UsageError(f"--policy: given {clean(name)!r}; allowed: {allowed}")
    return [POLICIES[name] for name in names]


def _plans(files: list[str], rounds: list[Round]) -> list[tuple[str, GivenPlan]]:
    from optsched.files.plans import load_plan

    return [(clean(PurePath(file).name), load_plan(file, rounds[0].snapshot)) for file in dict.fromkeys(files)]


def _check_mode(given: Round) -> None:
    from optsched.values.profile import PriorityMode

    mode = given.snapshot.profile.priority_mode
    if mode is not PriorityMode.STRICT:
        raise UsageError(
            f"--round: the profile of {clean(given.name)} has priority_mode {mode.value}; allowed: strict, by which "
            "plans are compared rank by rank"
        )

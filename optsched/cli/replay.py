"""optsched replay: run a scenario through the scheduler, with agents that answer at once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from optsched.cli.options import seconds, seed
from optsched.cli.terminal import Progress, Style, say, shows_colour, tell, width
from optsched.clock import StoppedClock, WallClock
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.engine.decide import Planner

DESCRIPTION = """\
Replay a scenario: a snapshot and the events after it. The scheduler decides
after every batch of events and whenever time alone may change something;
simulated agents start and stop what they are told to at once. Prints what
happened and why. The same file gives the same story."""

EPILOG = """\
examples:
  optsched replay --solver greedy               a large gang in a full cluster
  optsched replay incident.yaml                 what happened, and why
  optsched replay incident.yaml --format json   every job and node after every batch
  optsched replay incident.yaml --job pretrain  what concerns one job"""

DETERMINISTIC_S = 2.0
"""Counted seconds of search that a round may take unless it is said otherwise."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "replay", help="run a scenario through the scheduler", description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        nargs="?",
        help="a snapshot with events: a YAML or JSON file, gzipped or not; - for standard input (default: the story "
        "of a gang of 4,096 GPUs that comes with optsched)",
    )
    group = parser.add_argument_group("how rounds are planned")
    group.add_argument("--profile", metavar="NAME|PATH", help="use this profile in place of the scenario's own")
    group.add_argument(
        "--deterministic",
        metavar="S",
        type=seconds,
        default=DETERMINISTIC_S,
        help=f"deterministic seconds of search for a round (default {DETERMINISTIC_S:g})",
    )
    group.add_argument(
        "--solver",
        choices=("auto", "exact", "coarse", "greedy"),
        default="auto",
        help="as for optsched plan; greedy is the fastest",
    )
    group.add_argument("--seed", metavar="N", type=seed, default=0, help="seed of the solver (default 0)")
    output = parser.add_argument_group("what is written")
    output.add_argument("--format", choices=("text", "json"), default="text", help="text for people (default), or JSON")
    output.add_argument("--job", metavar="JOB", help="only what concerns this job (text)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Replay and print."""
    from optsched.cli.inputs import read_scenario

    read = read_scenario(args.scenario, args.profile)
    from optsched.cli.render_replay import moment_to_dict, timeline_to_json
    from optsched.cli.render_replay_text import Story
    from optsched.sim.replay import Replay

    if args.job is not None:
        known = {str(job.id) for job in read.scenario.start.jobs}
        known |= {str(getattr(event.fields.get("job"), "id", "")) for event in read.scenario.events}
        if args.job not in known:
            raise UsageError(f"no job is called {args.job}")
    replay = Replay(read.scenario, planner(args))
    story = Story(read.scenario, read.title, width(), Style(shows_colour(sys.stdout)), only=args.job)
    entries: list[dict[str, object]] = []
    order = {job.id: index for index, job in enumerate(read.scenario.start.jobs)}
    with Progress(WallClock()) as progress:
        for moment in replay.run(progress.report):
            if args.format == "json":
                entries.append(moment_to_dict(moment, order))
            else:
                story.add(moment)
    say(timeline_to_json(entries) if args.format == "json" else story.text())
    if not read.scenario.events:
        tell("the scenario has no events: only its first moment was decided")
    return 0


def planner(args: argparse.Namespace) -> Planner:
    """Return what plans the rounds: bounded by counted work, so that the same scenario gives the same story."""
    from optsched.engine.planning import RoundPlanner
    from optsched.planner.plan import PlanOptions
    from optsched.solve.ladder import SolverChoice

    options = PlanOptions(
        budget_s=1e9,
        solver=SolverChoice(args.solver),
        seed=args.seed,
        deterministic_s=args.deterministic,
        prove=0,
    )
    return RoundPlanner(options, StoppedClock())

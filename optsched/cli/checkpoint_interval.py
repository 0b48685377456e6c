"""optsched checkpoint-interval: how often a job should checkpoint, and why."""

from __future__ import annotations

import argparse
import sys

from optsched.cli.options import add_format
from optsched.cli.terminal import Style, say, shows_colour, warn, width

RESTART_S = "300"
"""The lower end of 5 to 20 minutes: Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research
Clusters", HPCA 2025."""

DESCRIPTION = """\
Recommend how often a job should checkpoint: from the time that a checkpoint blocks
training and from how often its nodes fail, by Young's and Daly's formulas; with
what is wasted then, and what other intervals and failure rates would mean."""

EPILOG = """\
examples:
  optsched checkpoint-interval --gpus 4096 --mtbf-node-h 1200 --cost-s 30
  optsched checkpoint-interval --gpus 4096 --preset llama3 --cost-s 0.6 --upload-s 200
  optsched checkpoint-interval --gpus 512 --preset rsc1 --failures 3 --node-hours 20000 --cost-s 30
  optsched checkpoint-interval --gpus 4096 --preset llama3 --cost-s 30 --upload-s 200 \\
      --tier ram:cost_s=2,survives=process"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "how often a job should checkpoint, and why"
    parser = commands.add_parser("checkpoint-interval", help=text, description=DESCRIPTION, epilog=EPILOG)
    job = parser.add_argument_group("the job")
    job.add_argument("--gpus", metavar="N", help="its GPUs")
    job.add_argument("--gpus-per-node", metavar="N", default="8", help="GPUs of a node (default 8)")
    job.add_argument("--cost-s", metavar="S", help="seconds that a checkpoint blocks training, not those of its upload")
    job.add_argument("--upload-s", metavar="S", help="seconds until it is safe, behind the training (default 0)")
    job.add_argument(
        "--restart-s",
        metavar="S",
        default=RESTART_S,
        help=f"seconds from a failure until training goes on (default {RESTART_S})",
    )
    job.add_argument(
        "--tier",
        metavar="NAME:cost_s=S,upload_s=S,survives=KIND+KIND",
        action="append",
        default=[],
        help="a further place for checkpoints, which survives some failures only; may be given several times",
    )
    failures = parser.add_argument_group("how often nodes fail")
    failures.add_argument("--mtbf-node-h", metavar="H", help="mean hours between failures of one node")
    failures.add_argument(
        "--preset", metavar="NAME", help="a published failure rate instead: llama3, rsc1 or rsc1-small-jobs"
    )
    failures.add_argument("--failures", metavar="N", help="failures that were seen on nodes of this class ...")
    failures.add_argument("--node-hours", metavar="H", help="... in so many node-hours")
    failures.add_argument(
        "--prior-node-h",
        metavar="H",
        help="node-hours that the given or published rate counts as, beside what was seen (default: as one failure)",
    )
    failures.add_argument(
        "--kind",
        metavar="KIND=SHARE",
        action="append",
        default=[],
        help="share of failures of a kind, for tiers (default process=0.36, node=0.64); given for every kind",
    )
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Recommend and print."""
    from optsched.cli.checkpoint_asked import asked
    from optsched.cli.render_checkpoint import advise, to_json, to_text, warnings

    advice = advise(asked(args))
    for text in warnings(advice):
        warn(text)
    if args.format == "json":
        say(to_json(advice))
    else:
        say(to_text(advice, width=width(), style=Style(shows_colour(sys.stdout))))
    return 0

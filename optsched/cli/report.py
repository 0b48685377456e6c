"""optsched report: results of simulations as one HTML page."""

from __future__ import annotations

import argparse

from optsched.cli.output import check_output, write_output
from optsched.cli.terminal import say, tell
from optsched.cli.words import clean

DESCRIPTION = """\
Turn what optsched simulate --format json wrote into one HTML page: figures side
by side, GPUs over time, waits by size, large gangs, the topology at a chosen
time. The page needs no network and follows the reader's light or dark theme."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("report", help="results of simulations as an HTML page", description=DESCRIPTION)
    parser.add_argument(
        "results", metavar="RESULTS", help="a file that optsched simulate --format json wrote; - for standard input"
    )
    parser.add_argument("--out", metavar="PATH", help="write the page there (default: to the output)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read results and write the page."""
    from optsched.cli.html.page import comparison_to_html
    from optsched.files.reading import read_text
    from optsched.sim.results import from_json

    check_output(args.out, "--out")
    text, name = read_text(args.results)
    write_page(comparison_to_html(from_json(text, name)), args.out)
    return 0


def write_page(page: str, out: str | None, option: str = "--out") -> None:
    """Write a page to a file, or to the output. Raises InputError, naming `option`, where that cannot be done."""
    if out is None:
        say(page)
        return
    write_output(out, page.encode(), option)
    tell(f"{clean(out)}: {len(page.encode()) / 1000:,.0f} kB written")

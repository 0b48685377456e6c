"""The argument parser, its errors in one line, and the options that commands share."""

from __future__ import annotations

import argparse
import difflib
import math
import re
import sys
from typing import TYPE_CHECKING, NoReturn

from optsched.cli.terminal import tell

if TYPE_CHECKING:
    from optsched.planner.plan import PlanOptions

_CHOICE = re.compile(
    r"^argument (?P<name>[^:]+): invalid choice: (?P<given>'.*'|\".*\") \(choose from (?P<known>.*)\)$", re.DOTALL
)
MAX_SEED = 2**31 - 1


class Parser(argparse.ArgumentParser):
    """A parser whose refusal is one line: what is wrong, what is allowed, where to read on."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and exit with 2."""
        tell(f"{self.prog}: {readable(message)} (see {self.prog} --help)")
        sys.exit(2)


class Once(argparse.Action):
    """Keeps a value; a second one is refused, where it would change what the first has said."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Keep the value, or refuse it."""
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string}: given twice; allowed: once")
        setattr(namespace, self.dest, values)


def readable(message: str) -> str:
    """Return a message of argparse as "field: what is wrong; allowed: what is allowed"."""
    choice = _CHOICE.match(message)
    if choice:
        allowed = [word.strip("'\"") for word in choice["known"].split(", ")]
        near = difflib.get_close_matches(choice["given"].strip("'\""), allowed, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{choice['name']}: given {choice['given']}; allowed: {hint}{', '.join(allowed)}"
    return message.removeprefix("argument ")


def seconds(text: str) -> float:
    """Return a number of seconds above 0, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: a number of seconds above 0, at most 86,400")
    return value


def seed(text: str) -> int:
    """Return a seed of the solver."""
    value = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else -1
    if not 0 <= value <= MAX_SEED:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: a whole number from 0 to {MAX_SEED}")
    return value


def add_solver_options(parser: argparse.ArgumentParser) -> None:
    """Add what decides how a round is planned."""
    group = parser.add_argument_group("how the round is planned")
    group.add_argument("--profile", metavar="NAME|PATH", help="use this profile in place of the snapshot's own")
    group.add_argument("--budget", metavar="S", type=seconds, help="time limit in seconds (default: the profile's)")
    group.add_argument(
        "--deterministic",
        metavar="S",
        type=seconds,
        help="limit in the solver's own deterministic seconds instead: the same input and seed give the same plan",
    )
    group.add_argument(
        "--solver",
        choices=("auto", "exact", "coarse", "greedy"),
        default="auto",
        help="auto: what suits the size (default): coarse, and up to 64 nodes exact after it; exact: one model of "
        "everything, for small clusters; coarse: who starts and who makes way first, places after; greedy: no bound",
    )
    group.add_argument("--seed", metavar="N", type=seed, default=0, help="seed of the solver (default 0)")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add --format."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people (default), or JSON")


def plan_options(args: argparse.Namespace) -> PlanOptions:
    """Return the planner's options of the arguments."""
    from optsched.planner.plan import PlanOptions
    from optsched.solve.ladder import SolverChoice

    return PlanOptions(
        budget_s=args.budget,
        solver=SolverChoice(args.solver),
        seed=args.seed,
        deterministic_s=args.deterministic,
        tasks=getattr(args, "tasks", False),
    )

"""optsched teams: the teams of a running service, and what they may have."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from optsched.cli.options import Parser
from optsched.cli.service import add_service, as_json, client_of, say_json, style, whole
from optsched.cli.terminal import say, tell, warn, width
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.client import Client, Team

LIST = "List teams: what they may have, hold and wait for."

SET = """\
Change a team, or make it: what is not named stays as it is. With --file, all teams of
a file at once, each as it stands there, or none."""

SET_EPILOG = """\
examples:
  optsched teams set vision --quota 64 --limit 128
  optsched teams set vision --quota h100=32,a100=16 --weight 2
  optsched teams set --file teams.yaml"""

NONE = "none"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("teams", help="list the teams of a service, or change them", description=LIST)
    add_service(parser)
    parser.set_defaults(run=run_list)
    inner = parser.add_subparsers(metavar="set", dest="teams_command", parser_class=Parser)
    setting = inner.add_parser("set", help="change teams", description=SET, epilog=SET_EPILOG)
    setting.add_argument("team", metavar="TEAM", nargs="?", help="the team's id")
    setting.add_argument("-f", "--file", metavar="FILE", help="teams: a list as in a snapshot; - for standard input")
    setting.add_argument("--parent", metavar="TEAM", help="the team above; none: at the top")
    setting.add_argument("--weight", metavar="N", type=_number, help="of its fair share, 0 to 1,000,000")
    gpus = "GPUs: a number, TYPE=N,TYPE=N, or none"
    setting.add_argument("--quota", metavar="GPUS", type=_gpus, help=f"guaranteed {gpus}")
    setting.add_argument("--limit", metavar="GPUS", type=_gpus, help=f"at most, with all teams below: {gpus}")
    setting.add_argument("--user-limit", metavar="GPUS", type=_gpus, help=f"of each user: {gpus}")
    setting.add_argument(
        "--max-priority", metavar="PRIORITY", help="a class or a number that its jobs may have; or none"
    )
    setting.add_argument(
        "--max-deadline-gpus", metavar="N", type=whole(0, 10**9), help="GPUs above its tier by deadlines"
    )
    add_service(setting)
    setting.set_defaults(run=run_set)


def _number(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: a number from 0 to 1,000,000")
    return float(text)


def _gpus(text: str) -> object:
    """Return an amount of GPUs, by type or of any; NONE where nothing is to be named."""
    if text == NONE:
        return NONE
    if re.fullmatch(r"[0-9]{1,10}", text):
        return int(text)
    parts = [part.partition("=") for part in text.split(",")]
    if all(name and re.fullmatch(r"[0-9]{1,10}", gpus) for name, _, gpus in parts):
        return {name: int(gpus) for name, _, gpus in parts}
    raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: a number of GPUs, TYPE=N,TYPE=N, or none")


def run_list(args: argparse.Namespace) -> int:
    """List teams."""
    with client_of(args) as client:
        found = client.teams()
    if args.format == "json":
        say_json(as_json(found))
    elif found.teams:
        from optsched.cli.render_service import teams_to_text

        say(teams_to_text(found.teams, width(), style()))
    else:
        tell("no teams")
    return 0


def run_set(args: argparse.Namespace) -> int:
    """Change one team, or set those of a file."""
    if (args.team is None) == (args.file is None):
        raise UsageError(
            "teams set: names no team, or a team and a file; allowed: a team with what to change, or --file"
        )
    with client_of(args) as client:
        if args.file is not None:
            _only_file(args)
            teams, version = _of_file(args.file), 0
        else:
            team, version = _changed(client, args)
            teams = [team]
        answer = client.set_teams(teams, version)
    for text in answer.warnings:
        warn(text)
    if args.format == "json":
        say_json(as_json(answer))
    else:
        say("\n".join(team.id for team in teams))
    return 0


_KEYS = ("parent", "weight", "quota", "limit", "user_limit", "max_priority", "max_deadline_gpus")


def _only_file(args: argparse.Namespace) -> None:
    for key in _KEYS:
        if getattr(args, key) is not None:
            flag = "--" + key.replace("_", "-")
            raise UsageError(f"teams set: {flag} is given with --file; allowed: it stands in the file, or no file")


def _changed(client: Client, args: argparse.Namespace) -> tuple[Team, int]:
    """Return the team as it is to be, and the version of the rules that this is made for."""
    from optsched.client import Team
    from optsched.wire.convert import to_message, to_plain

    found = client.teams()
    now = next((each.team for each in found.teams if each.team.id == args.team), None)
    plain: dict[str, object] = to_plain(now) if now is not None else {"id": args.team}
    for key in _KEYS:
        given = getattr(args, key)
        if given is None:
            continue
        if key in ("quota", "limit", "user_limit"):
            before = plain.get(key)
            named = {
                name: value for name, value in (before if isinstance(before, dict) else {}).items() if name != "gpus"
            }
            named |= {} if given == NONE else {"gpus": given}
            plain[key] = named
            if not named:
                del plain[key]
        elif given == NONE:
            plain.pop(key, None)
        else:
            number = key == "max_priority" and re.fullmatch(r"-?[0-9]{1,10}", given)
            plain[key] = int(given) if number else given
    return to_message(Team, plain), found.rules_version


def _of_file(path: str) -> list[Team]:
    """Return the teams of a file. Raises InputError."""
    from optsched.client import Team
    from optsched.files.document import read_document
    from optsched.files.profiles import note_duplicates
    from optsched.files.report import Report, Scope
    from optsched.files.schema import TeamIn
    from optsched.files.validate import validate_list
    from optsched.wire.convert import to_message

    scope = Scope(Report(), read_document(path))
    note_duplicates(scope)
    data = scope.document.data
    rows = data.get("teams") if isinstance(data, dict) else None
    if not isinstance(data, dict) or set(data) != {"teams"} or not isinstance(rows, list) or not rows:
        scope.fault("is no list of teams", "a mapping with the one key teams: a list of teams, as in a snapshot")
    else:
        validate_list(scope.at("teams"), TeamIn, rows)
    scope.report.raise_faults()
    assert isinstance(rows, list)
    return [to_message(Team, row) for row in rows]

"""What commands that ask the service have in common: how it is reached, and what is printed of answers."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optsched.cli.options import add_format
from optsched.cli.terminal import Style, say, shows_colour
from optsched.client.settings import PREFIX, Settings, load_settings
from optsched.files.settings import flag_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from optsched.client import Client

REACHED = """\
How the service is reached comes from flags, else from the environment (OPTSCHED_CLIENT_
and the flag in capitals: OPTSCHED_CLIENT_SCHEDULER), else from the file that --config or
OPTSCHED_CLIENT_CONFIG names, or ~/.config/optsched/client.yaml (scheduler: ...)."""

_SPAN = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(s|min|m|h|d)?$")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MOST_S = 1e10


def add_service(parser: argparse.ArgumentParser, *, formats: bool = True) -> None:
    """Add how the service is reached, and --format."""
    if formats:
        add_format(parser)
    parser.epilog = f"{parser.epilog}\n\n{REACHED}" if parser.epilog else REACHED
    group = parser.add_argument_group("how the service is reached")
    group.add_argument("--config", metavar="FILE", help="a YAML or JSON file with these settings")
    for key, field in Settings.model_fields.items():
        default = "" if field.default is None else f" (default: {_short(field.default)})"
        help_text = f"{field.description}{default}".replace("%", "%%")
        group.add_argument(flag_of(key), metavar="VALUE", dest=PREFIX + key, help=help_text)


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def client_of(args: argparse.Namespace) -> Client:
    """Return a client of the service that the arguments, the environment or a file name. Raises InputError."""
    import os

    from optsched.client import Client

    given = {key: getattr(args, PREFIX + key) for key in Settings.model_fields}
    flags = {key: value for key, value in given.items() if value is not None}
    return Client(load_settings(flags, os.environ, args.config))


def style() -> Style:
    """Return the colours of standard output."""
    return Style(shows_colour(sys.stdout))


def say_json(data: Mapping[str, object]) -> None:
    """Print data as one line of JSON."""
    say(json.dumps(data, ensure_ascii=False, separators=(", ", ": ")))


def as_json(message: Message) -> dict[str, object]:
    """Return a message with the keys and words that REST has, every key that has a value there too."""
    from optsched.wire.convert import to_plain

    return to_plain(message, whole=True)


def span(text: str) -> float:
    """Return a duration in seconds: a number, with s, m, h or d behind it where those are not seconds."""
    match = _SPAN.match(text.strip())
    value = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    if not 0 < value <= _MOST_S:
        allowed = "a duration above 0, such as 90, 90s, 15m, 4h or 2d; at most 1e10 s"
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: {allowed}")
    return value


def instant(text: str) -> float:
    """Return an instant in seconds since 1970: such a number, or RFC 3339."""
    from datetime import datetime

    try:
        return float(text) if re.fullmatch(r"[0-9.]+", text) else _aware(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        allowed = "RFC 3339 such as 2026-12-01T08:00:00Z, or seconds since 1970"
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: {allowed}") from None


def _aware(moment: object) -> float:
    from datetime import datetime

    assert isinstance(moment, datetime)
    if moment.tzinfo is None:
        raise ValueError("without a zone it is no instant")
    return moment.timestamp()


def whole(least: int, most: int) -> type[int]:
    """Return what reads a whole number within bounds."""

    def read(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,20}", text) and least <= int(text) <= most:
            return int(text)
        allowed = f"a whole number from {least:,} to {most:,}"
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: {allowed}")

    return read  # type: ignore[return-value]


def pair(text: str) -> tuple[str, str]:
    """Return NAME=VALUE as its two parts."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"given {text[:80]!r}; allowed: NAME=VALUE")
    return name, value

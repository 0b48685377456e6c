"""Profiles as text or JSON."""

from __future__ import annotations

from collections.abc import Mapping

from optsched.cli.tables import Column, Row, table, wrapped
from optsched.cli.terminal import Style
from optsched.cli.words import clean, duration, joined, number
from optsched.files.dump import profile_to_dict
from optsched.files.plan_json import Plain, write
from optsched.values.profile import Profile


def profiles_to_json(profiles: Mapping[str, Profile]) -> str:
    """Return {"profiles": [one object each]}."""
    return write({"profiles": [_plain(profile) for profile in profiles.values()]})


def profile_to_json(profile: Profile) -> str:
    """Return every knob of one profile, a key to a line."""
    return write(_plain(profile))


def profiles_to_text(profiles: Mapping[str, Profile], *, width: int, style: Style) -> str:
    """Return a line for each profile: what matters most, and in what it differs from the default."""
    default = profiles.get("default", Profile())
    rows = []
    for name, profile in profiles.items():
        differs = ", ".join(_differences(profile, default)) or ("the base of all" if name == "default" else "nothing")
        mode, reclaim = profile.priority_mode.value, profile.reclaim.value.replace("_", " ")
        rows.append(
            Row([clean(name), mode, reclaim, duration(profile.horizon_s), duration(profile.budget_s)], [differs])
        )
    columns = [
        Column("profile", paint=style.name),
        *(Column(head) for head in ("priorities", "reclaim", "horizon", "budget")),
    ]
    head = style.title("Profiles") + style.faint("  below each: in what it differs from the default")
    return "\n".join([head, *table(columns, rows, width, style.faint)]) + "\n"


def profile_to_text(profile: Profile, default: Profile, *, width: int, style: Style) -> str:
    """Return every knob of one profile; what differs from the default is marked."""
    mine, base = _plain(profile), _plain(default)
    differing = _differences(profile, default)
    note = (
        f"{len(differing)} of {len(mine) - 1} knobs differ from the default" if differing else "all as in the default"
    )
    lines = [style.title(f"Profile {clean(profile.name)}") + style.faint(f"  {note}")]
    room = max(len(key) for key in mine) + 2
    for key, value in mine.items():
        if key == "name":
            continue
        mark = "*" if key in differing else " "
        text = f"{mark} {key:<{room}}{_text(key, value)}"
        made = wrapped(text, width, 0, hang=room + 2)
        lines += [style.wait(line) for line in made] if mark == "*" else made
        if mark == "*":
            lines += [style.faint(line) for line in wrapped(f"default: {_text(key, base[key])}", width, room + 2)]
    return "\n".join(lines) + "\n"


def _plain(profile: Profile) -> Plain:
    return {key: value for key, value in profile_to_dict(profile).items() if key != "base"}


def _differences(profile: Profile, default: Profile) -> list[str]:
    mine, base = _plain(profile), _plain(default)
    return [key for key in mine if key != "name" and mine[key] != base[key]]


def _text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return joined(f"{clean(str(name))} {_text('', entry)}" for name, entry in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(clean(str(entry)) for entry in value) or "none"
    if isinstance(value, int | float):
        return f"{number(value)} ({duration(value)})" if key.endswith("_s") and value >= 60 else f"{value:,}"
    return clean(str(value))

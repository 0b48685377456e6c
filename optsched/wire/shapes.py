"""What differs between a message of the contract and the same thing as plain data, by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

Plain = dict[str, object]
Change = Callable[[Plain], Plain]


def _choice(key: str, number: str, word: str) -> tuple[Change, Change]:
    """Return the two ways of a key that is a number or a word in plain data, and one of two fields in a message."""

    def out(plain: Plain) -> Plain:
        given = plain.pop(key, None)
        if given is not None:
            plain[word if isinstance(given, str) else number] = given
        return plain

    def back(plain: Plain) -> Plain:
        for name in (number, word):
            if name in plain:
                plain[key] = plain.pop(name)
        return plain

    return out, back


def _gpus_out(plain: Plain) -> Plain:
    """Amounts: GPUs of any type, or by type."""
    if isinstance(plain.get("gpus"), Mapping):
        plain["gpus_by_type"] = plain.pop("gpus")
    return plain


def _gpus_back(plain: Plain) -> Plain:
    by_type = plain.pop("gpus_by_type", None)
    if by_type is not None:
        # Both at once is what the schema refuses: it takes a number or a mapping.
        plain["gpus"] = by_type if "gpus" not in plain else [plain["gpus"], by_type]
    return plain


def _counted(plain: Plain) -> Plain:
    """A count of GPUs, or their indices: a message has both, the indices empty where they are not known."""
    gpus = plain.get("gpus")
    if isinstance(gpus, list | tuple):
        plain["gpus"], plain["gpu_indices"] = len(gpus), gpus
    return plain


def _indexed(plain: Plain) -> Plain:
    indices = plain.pop("gpu_indices", None)
    if indices:
        plain["gpus"] = indices
    return plain


def placed(placement: object) -> list[Plain]:
    """Return a placement as a list of what is on each node."""
    assert isinstance(placement, Mapping)
    return [_counted({"node": node, "gpus": gpus}) for node, gpus in placement.items()]


def _mapped(entries: object) -> Plain:
    assert isinstance(entries, Iterable)
    return {str(entry["node"]): entry["gpus"] for entry in entries}


def _placement_out(*keys: str) -> Change:
    def out(plain: Plain) -> Plain:
        for key in keys:
            if isinstance(plain.get(key), Mapping):
                plain[key] = placed(plain[key])
        return plain

    return out


def _placement_back(*keys: str) -> Change:
    def back(plain: Plain) -> Plain:
        for key in keys:
            if key in plain:
                plain[key] = _mapped(plain[key])
        return plain

    return back


def _then(*changes: Change) -> Change:
    def all_of_them(plain: Plain) -> Plain:
        for change in changes:
            plain = change(plain)
        return plain

    return all_of_them


def _renamed(old: str, new: str) -> Change:
    def rename(plain: Plain) -> Plain:
        if old in plain:
            plain[new] = plain.pop(old)
        return plain

    return rename


def _types_out(plain: Plain) -> Plain:
    """A job's GPU types: a list means full speed on each."""
    types = plain.get("gpu_types")
    if isinstance(types, list):
        plain["gpu_types"] = dict.fromkeys(types, 1.0)
    return plain


def _auto_out(plain: Plain) -> Plain:
    if plain.get("interval_s") == "auto":
        del plain["interval_s"]
    return plain


_PRIORITY = _choice("priority", "priority", "priority_class")
_CEILING = _choice("max_priority", "max_priority", "max_priority_class")
_ADVICE = _choice("value", "number", "text_value")
_PLACED_MOVE = _then(_placement_out("placement"), _renamed("for", "beneficiaries"))
_PLACED_MOVE_BACK = _then(_placement_back("placement"), _renamed("beneficiaries", "for"))

TO_MESSAGE: Mapping[str, Change] = {
    "JobSpec": _then(_PRIORITY[0], _types_out),
    "UpdateJobRequest": _PRIORITY[0],
    "CheckpointConfig": _auto_out,
    "Team": _CEILING[0],
    "Amounts": _gpus_out,
    "NodePlacement": _counted,
    "Booking": _counted,
    "TaskPlacement": _counted,
    "Job": _placement_out("placement", "claim"),
    "PlannedStart": _placement_out("placement"),
    "PlannedMove": _PLACED_MOVE,
    "PlannedPreemption": _renamed("for", "beneficiaries"),
    "Unblock": _ADVICE[0],
}
"""Plain data to what a message has."""

FROM_MESSAGE: Mapping[str, Change] = {
    "JobSpec": _PRIORITY[1],
    "UpdateJobRequest": _PRIORITY[1],
    "Team": _CEILING[1],
    "Amounts": _gpus_back,
    "NodePlacement": _indexed,
    "Booking": _indexed,
    "TaskPlacement": _indexed,
    "Job": _placement_back("placement", "claim"),
    "PlannedStart": _placement_back("placement"),
    "PlannedMove": _PLACED_MOVE_BACK,
    "PlannedPreemption": _renamed("beneficiaries", "for"),
    "Unblock": _ADVICE[1],
}
"""What a message has to plain data."""

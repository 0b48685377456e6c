"""Changes of the cluster and its rules: asked for by somebody, kept with that, and answered with their version."""

from __future__ import annotations

import json
from collections.abc import Sequence

from optsched.engine import events
from optsched.files.report import Scope
from optsched.server.caller import Caller
from optsched.server.checks import Plain
from optsched.server.leader import Prepared
from optsched.values.ids import JobId

RULES = JobId("")
"""Whose history is that of what operators changed."""


def asked_by(caller: Caller, what: str, data: Plain) -> events.Asked:
    """Return the note of who asked for what."""
    return events.Asked(caller.name, what, json.dumps(data, sort_keys=True, default=str), RULES)


def changed(
    caller: Caller, what: str, data: Plain, scope: Scope, happened: Sequence[events.Event], *, warns: bool = True
) -> Prepared[Plain]:
    """Return a change of the rules, answered with their version and, where it may, with warnings."""
    warnings = list(scope.report.warnings())
    more: Plain = {"warnings": warnings} if warns else {}
    return Prepared(
        lambda after: {"rules_version": after.rules_changed, **more}, (asked_by(caller, what, data), *happened)
    )

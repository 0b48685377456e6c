"""Who may ask what: tokens and certificates to callers, one table of methods and roles, and how often each may ask."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from optsched.errors import Busy, NotAllowed, NotNamed
from optsched.files.document import read_document
from optsched.files.fields import Absent, Id, Strict, Text
from optsched.files.profiles import note_duplicates
from optsched.files.report import Report, Scope
from optsched.files.validate import validate
from optsched.server.caller import Caller, Role

ANYBODY = frozenset({Role.SUBMITTER, Role.OPERATOR})
OPERATORS = frozenset({Role.OPERATOR})
AGENTS = frozenset({Role.AGENT})

METHODS: Mapping[str, frozenset[Role]] = {
    **dict.fromkeys(
        (
            "Scheduler.SubmitJob",
            "Scheduler.SubmitJobs",
            "Scheduler.GetJob",
            "Scheduler.ListJobs",
            "Scheduler.UpdateJob",
            "Scheduler.HoldJob",
            "Scheduler.ReleaseJob",
            "Scheduler.CancelJob",
            "Scheduler.PreemptJob",
            "Scheduler.ExplainJob",
            "Scheduler.ListJobEvents",
            "Scheduler.WatchJobs",
            "Scheduler.Plan",
            "Scheduler.ListRounds",
            "Scheduler.GetRound",
            "Scheduler.ReadLogs",
            "Scheduler.Attach",
            "Cluster.GetStatus",
            "Cluster.ListNodes",
            "Cluster.GetNode",
            "Cluster.ListDomains",
            "Cluster.ListTeams",
            "Cluster.GetProfile",
            "Cluster.ListReservations",
        ),
        ANYBODY,
    ),
    **dict.fromkeys(
        (
            "Cluster.SetNodes",
            "Cluster.RemoveNode",
            "Cluster.CordonNode",
            "Cluster.UncordonNode",
            "Cluster.DrainNode",
            "Cluster.FenceNode",
            "Cluster.SetTeams",
            "Cluster.SetProfile",
            "Cluster.SetReservation",
            "Cluster.DropReservation",
            "Cluster.ListChanges",
            "Cluster.WatchEvents",
            "metrics",
        ),
        OPERATORS,
    ),
    "Agent.Connect": AGENTS,
}
"""The roles that may call each method; what is not in it, nobody may."""

Digest = Annotated[
    str, Field(pattern=r"^[0-9a-f]{64}$", description="64 hexadecimal digits in small letters: SHA-256 of the token")
]


class TokenIn(Strict):
    """One caller: known by a token, of which only the digest is kept, or by the name in its certificate."""

    name: Id
    role: Annotated[Literal["submitter", "operator", "agent"], Field(description="submitter, operator or agent")]
    sha256: Absent[Digest] = None
    certificate: Absent[Text] = None
    teams: list[Id] = Field(default_factory=list, max_length=1000, description="a list of at most 1,000 teams")
    nodes: list[Id] = Field(default_factory=list, max_length=10_000, description="a list of at most 10,000 nodes")


class TokensIn(Strict):
    """A file of tokens."""

    tokens: list[TokenIn] = Field(min_length=1, max_length=100_000, description="a list of 1 to 100,000 tokens")


@dataclass(frozen=True, slots=True)
class Known:
    """A caller that is known, and what it is for."""

    caller: Caller
    role: Role


@dataclass(frozen=True, slots=True)
class Tokens:
    """Callers by the digest of their token, and by the name in their certificate."""

    by_digest: Mapping[str, Known]
    by_certificate: Mapping[str, Known]


def load_tokens(path: str) -> Tokens:
    """Return the tokens of a file. Raises InputError with every fault; none of them shows a token."""
    document = read_document(path)
    report = Report()
    scope = Scope(report, document)
    note_duplicates(scope)
    found = validate(scope, TokensIn, document.data)
    by_digest: dict[str, Known] = {}
    by_certificate: dict[str, Known] = {}
    names: set[str] = set()
    for number, each in enumerate(found.tokens if found is not None else ()):
        place = scope.at("tokens", number)
        _check(each, place)
        if each.name in names:
            place.fault(f"the name {each.name!r} is given twice", "each name once", "name")
        names.add(each.name)
        role = Role(each.role)
        teams = frozenset(each.teams) if role is Role.SUBMITTER else None
        nodes = frozenset(each.nodes) if each.nodes else None
        known = Known(Caller(each.name, teams, nodes, key=each.name), role)
        for key, table in ((each.sha256, by_digest), (each.certificate, by_certificate)):
            if key is not None and key in table:
                place.fault(
                    "is that of another entry too", "each once", "sha256" if table is by_digest else "certificate"
                )
            elif key is not None:
                table[key] = known
    report.raise_faults()
    return Tokens(by_digest, by_certificate)


def _check(entry: TokenIn, place: Scope) -> None:
    if (entry.sha256 is None) == (entry.certificate is None):
        place.fault("names no token and no certificate, or both", "sha256, or certificate", "sha256")
    if entry.role == "submitter" and not entry.teams:
        place.fault("is missing", "the teams that a submitter submits for", "teams")
    if entry.role != "submitter" and entry.teams:
        place.fault(f"given for a token of the role {entry.role}", "only for a submitter", "teams")
    if entry.role != "agent" and entry.nodes:
        place.fault(f"given for a token of the role {entry.role}", "only for an agent", "nodes")


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass(slots=True)
class Gate:
    """Lets callers in, or not. `tokens` None: nobody has to say who it is, and everybody may ask for everything.

    Each caller may ask `per_s` times a second on average, and so often at once; without tokens, each address.
    """

    tokens: Tokens | None = None
    per_s: float = 10_000.0
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def enter(self, method: str, bearer: str | None, certificate: str | None, peer: str) -> Caller:
        """Return who calls a method. Raises NotNamed, NotAllowed, or Busy for one that asks too often."""
        if self.tokens is None:
            caller, who = Caller(name=peer), peer.rpartition(":")[0]
        else:
            known = self._known(self.tokens, bearer, certificate)
            if known.role not in METHODS.get(method, frozenset()):
                allowed = " or ".join(sorted(role.value for role in METHODS.get(method, frozenset()))) or "nobody"
                raise NotAllowed(f"{method} is for {allowed}; {known.caller.name} is {known.role.value}")
            caller, who = known.caller, known.caller.key
        self._count(who)
        return caller

    def _known(self, tokens: Tokens, bearer: str | None, certificate: str | None) -> Known:
        if bearer is not None:
            found = tokens.by_digest.get(digest_of(bearer))
            if found is None:
                raise NotNamed("the token is not known")
            return found
        if certificate is not None and certificate in tokens.by_certificate:
            return tokens.by_certificate[certificate]
        raise NotNamed("a token is needed: authorization: Bearer TOKEN")

    def _count(self, who: str) -> None:
        now = time.monotonic()
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = _Bucket(self.per_s, now)
            if len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
        bucket.left = min(self.per_s, bucket.left + (now - bucket.at) * self.per_s)
        bucket.at = now
        self._buckets.move_to_end(who)
        if bucket.left < 1.0:
            raise Busy(f"more than {self.per_s:g} requests a second: try again in a moment", 1.0)
        bucket.left -= 1.0


MOST_CALLERS = 10_000
"""Callers whose rate is known; of more, those are forgotten that have asked for nothing the longest."""


def digest_of(token: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_of(header: str | None) -> str | None:
    """Return the token of an authorization header; None where there is none. Raises NotNamed for another scheme."""
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NotNamed("authorization is given, but not as: Bearer TOKEN")
    return token.strip()

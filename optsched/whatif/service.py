"""The state of a running service, read over its REST or gRPC API as a snapshot: only calls that change nothing.

The API has no call for the whole state. It is put together from the status, the levels, the nodes, the jobs that have
not ended, the teams, the profile and the reservations; where jobs have moved between two of these calls, they are made
again. What it does not tell is left out: how GPUs are wired inside a node, and what earlier rounds have reserved.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException, InvalidURL
from typing import Any
from urllib.parse import urlencode, urlsplit

from optsched.errors import InputError, NoAnswer, NotAllowed, NotNamed, OptschedError, UsageError
from optsched.files.snapshots import parse_snapshot
from optsched.values.snapshot import Snapshot
from optsched.wire.access import authorities

Plain = dict[str, Any]
Query = Mapping[str, object]

PAGE = 1000
TIMEOUT_S = 30.0
TRIES = 3
LIVE = ("queued", "starting", "running", "preempting")

Get = Callable[[str, Query], Plain]
"""Makes one call, named by its path in REST, with a query."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to be let in: a token, and the certificates to trust (a PEM file; None: those of the machine)."""

    token: str | None = None
    ca: str | None = None


def read_service(address: str, access: Access) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the state of a service as a snapshot, and its warnings.

    `address` is http://HOST:PORT, https://HOST:PORT, grpc://HOST:PORT or grpcs://HOST:PORT. Raises UsageError where it
    is none of these, does not answer as a service of optsched does, or `access` is not fit for it; NoAnswer where
    nobody answers; and a Refusal where the service refuses to be read.
    """
    try:
        parts = urlsplit(address)
        if not parts.hostname or not parts.port or parts.scheme not in ("http", "https", "grpc", "grpcs"):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--service: given {address!r}; allowed: http://HOST:PORT or https://HOST:PORT (REST), "
            "grpc://HOST:PORT or grpcs://HOST:PORT"
        ) from None
    if access.ca and parts.scheme in ("http", "grpc"):
        raise UsageError(f"--ca: given with {parts.scheme}://; allowed: with https:// or grpcs://")
    if parts.scheme.startswith("http"):
        return _assembled(_rest(f"{parts.scheme}://{parts.netloc}", access), address)
    from optsched.whatif.service_grpc import channel_to, grpc_calls

    with channel_to(parts.netloc, parts.scheme == "grpcs", access) as channel:
        return _assembled(grpc_calls(channel, access), address)


def _rest(base: str, access: Access) -> Get:
    context = None
    if base.startswith("https:"):
        if access.ca:
            authorities(access.ca, "--ca")
        context = ssl.create_default_context(cafile=access.ca)
    # A proxy of the machine is for the world outside, not for a scheduler beside it.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )

    def get(path: str, query: Query) -> Plain:
        url = f"{base}/v1/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        request = urllib.request.Request(url, method="GET")
        if access.token:
            request.add_header("authorization", f"Bearer {access.token}")
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error, url) from error
        except (UnicodeError, InvalidURL) as error:
            raise UsageError(f"--service: {url} cannot be asked: {error}; {_ALLOWED}") from error
        except (OSError, HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            raise NoAnswer(f"--service: nobody answers at {url}: {reason}") from error
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UsageError(f"--service: {url} answers no JSON object; {_ALLOWED}")
        return found

    return get


_ALLOWED = "allowed: the REST address of optsched serve"


def _refusal(error: urllib.error.HTTPError, url: str) -> OptschedError:
    """Return what an answer other than 200 means: refused, failed, or not of a service of optsched."""
    told = f"--service: {url} answers {error.code} {error.reason}"
    if error.code in (401, 403):
        kind = NotNamed if error.code == 401 else NotAllowed
        return kind(f"{told}; allowed: --token-file with a token that may read")
    return NoAnswer(told) if error.code >= 500 else UsageError(f"{told}; {_ALLOWED}")


def _pages(get: Get, path: str, key: str, query: Query) -> list[Plain]:
    found: list[Plain] = []
    token = ""
    while True:
        page = get(path, {**query, "page_size": PAGE} | ({"page_token": token} if token else {}))
        found += page.get(key) or []
        token = page.get("next_page_token") or ""
        if not token:
            return found


def _assembled(get: Get, address: str) -> tuple[Snapshot, tuple[str, ...]]:
    for attempt in range(TRIES):
        try:
            data = _read(get)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            wrong = f"{address} does not answer as optsched serve does ({type(error).__name__}: {error})"
            raise UsageError(f"--service: {wrong}; allowed: a service of this version") from error
        try:
            return parse_snapshot(data, address)
        except InputError:
            # A job may have moved to a node that was not there a moment before.
            if attempt == TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


def _read(get: Get) -> Plain:
    status = get("status", {})
    levels = [level for level in get("domains", {}).get("levels") or [] if level != "node"]
    nodes = _pages(get, "nodes", "nodes", {})
    jobs = _pages(get, "jobs", "jobs", {"state": list(LIVE), "view": "full"})
    teams = get("teams", {}).get("teams") or []
    given = get("profile", {})["json"]
    # REST shows the object itself, gRPC its text.
    profile = json.loads(given) if isinstance(given, str) else given
    reservations = get("reservations", {}).get("reservations") or []
    return {
        "now": status["now_at"],
        "profile": profile,
        "cluster": {"levels": levels, "nodes": [_node(node) for node in nodes]},
        "teams": [_without_none(each["team"]) for each in teams],
        "jobs": [found for job in jobs if (found := _job(job)) is not None],
        "reservations": [_without_none(each) for each in reservations],
    }


def _node(node: Plain) -> Plain:
    spec = _without_none(node["spec"])
    spec.pop("fabric", None)
    reason = node.get("reason")
    return spec | {"state": node["state"]} | ({"reason": reason} if reason else {})


def _job(job: Plain) -> Plain | None:
    """Return a job in the schema of files; None for one that somebody keeps from starting."""
    if job.get("held"):
        return None
    spec: Plain = {key: value for key, value in _without_none(job["spec"]).items() if key not in ("after", "hold")}
    found = spec | {
        "id": job["id"],
        "team": job["team"],
        "submitted_at": job.get("submitted_at") or 0.0,
        "run": job.get("run") or 0,
        "preemptions": job.get("preemptions") or 0,
    }
    saved = job.get("last_checkpoint")
    placement = job.get("placement")
    if job["state"] in ("starting", "running") and placement:
        found |= {
            "state": "running",
            "placement": placement,
            "started_at": job.get("started_at") or job.get("submitted_at") or 0.0,
        }
        if saved is not None:
            found["last_checkpoint_at"] = saved
    return found


def _without_none(given: Mapping[str, Any]) -> Plain:
    return {key: value for key, value in given.items() if value is not None}

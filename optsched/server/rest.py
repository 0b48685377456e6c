"""REST/JSON: the routes as an ASGI application over the same calls that gRPC makes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from optsched.errors import Fault, InputError, InternalError, OptschedError, TooSlow
from optsched.files.jsontext import JsonProblem, parse_json
from optsched.server.access import Gate, bearer_of
from optsched.server.application import Application
from optsched.server.caller import Caller
from optsched.server.checks import Plain
from optsched.server.metrics import Metrics
from optsched.server.openapi import document
from optsched.server.routes import INTEGER, NUMBER, ROUTES, WORDS, Route
from optsched.wire.status import Answer, answer_of, body_of

log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RestLimits:
    """How much one request may be, in bytes, and how long it may take, in seconds."""

    body_bytes: int = 16 * 2**20
    request_s: float = 30.0


def rest_api(app: Application, metrics: Metrics, gate: Gate, limits: RestLimits | None = None) -> ASGIApp:
    """Return the ASGI application."""
    served = _Served(app, gate, limits or RestLimits())
    routes = [HttpRoute(_pattern(route), served.endpoint(route), methods=[route.verb]) for route in ROUTES]
    described = document(ROUTES)

    async def openapi(request: Request) -> Response:
        return JSONResponse(described)

    async def alive(request: Request) -> Response:
        leads = not app.leader.stopped.is_set()
        return JSONResponse({"status": "ok" if leads else "stopped"}, 200 if leads else 503)

    async def scraped(request: Request) -> Response:
        try:
            _caller(request, "metrics", gate)
        except OptschedError as error:
            return _refusal(answer_of(error))
        text, kind = await asyncio.to_thread(metrics.text)
        return Response(text, media_type=kind)

    routes += [HttpRoute("/openapi.json", openapi), HttpRoute("/healthz", alive), HttpRoute("/metrics", scraped)]
    made = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
    return _slashes_kept(made)


def _slashes_kept(inner: ASGIApp) -> ASGIApp:
    """Keep what is written %2F as it is until the route is found: an id may hold slashes, and words like /events."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and b"%2" in scope.get("raw_path", b""):
            pieces = re.split("%2[fF]", scope["raw_path"].decode("ascii"))
            scope = {**scope, "path": "%2F".join(unquote(piece) for piece in pieces)}
        await inner(scope, receive, send)

    return app


def _pattern(route: Route) -> str:
    """Return a route's path as Starlette has it: ids may hold slashes."""
    return route.path.replace("{id}", "{id:int}" if route.call == "Scheduler.GetRound" else "{id:path}")


async def _http_error(request: Request, error: Exception) -> Response:
    """Tell an error of HTTP itself in the same form as all others."""
    assert isinstance(error, HTTPException)
    words = {404: "NOT_FOUND", 405: "UNIMPLEMENTED"}
    body = {"error": {"code": words.get(error.status_code, "INVALID_ARGUMENT"), "message": str(error.detail)}}
    return JSONResponse(body, error.status_code, headers=error.headers)


class _Served:
    def __init__(self, app: Application, gate: Gate, limits: RestLimits) -> None:
        self._gate = gate
        self._answers = app.answers()
        self._streams = app.streams()
        self._limits = limits

    def endpoint(self, route: Route) -> Endpoint:
        """Return what serves a route."""

        async def serve(request: Request) -> Response:
            try:
                caller = _caller(request, route.call, self._gate)
                data = await self._in_time(request, route)
                if route.streams:
                    return await self._stream(route, data, caller)
                async with asyncio.timeout(self._limits.request_s):
                    answer = await self._answers[route.call](data, caller)
                return _success(route, answer)
            except TimeoutError:
                text = f"not done within {self._limits.request_s:g} s: it may still happen; ask again with the same key"
                return _failure(route, TooSlow(text))
            except Exception as error:
                return _failure(route, error)

        return serve

    async def _stream(self, route: Route, data: Plain, caller: Caller) -> Response:
        """Return rows as server-sent events. What refuses the request is told as for any other."""
        rows = self._streams[route.call](data, caller)
        # The first row, or the word that there is none yet, before the status goes out.
        first = asyncio.ensure_future(anext(rows))
        await asyncio.wait({first}, timeout=0.05)
        if first.done():
            first.result()

        async def lines() -> AsyncIterator[bytes]:
            try:
                yield _event(await first)
                async for row in rows:
                    yield _event(row)
            except StopAsyncIteration:
                return
            except OptschedError as error:
                yield b"event: error\n" + _event(body_of(answer_of(error)))
            finally:
                first.cancel()

        return StreamingResponse(lines(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _in_time(self, request: Request, route: Route) -> Plain:
        """Return the request, unless its sender takes too long to send it."""
        try:
            async with asyncio.timeout(self._limits.request_s):
                return await self._data(request, route)
        except TimeoutError:
            text = f"the body did not come within {self._limits.request_s:g} s"
            raise HTTPException(408, text, {"connection": "close"}) from None

    async def _data(self, request: Request, route: Route) -> Plain:
        """Return the request of the contract that an HTTP request is. Raises InputError."""
        data: Plain = {}
        if route.takes_body:
            body = await self._body(request)
            if route.body is not None:
                data[route.body] = body
            else:
                data |= body
        if "id" in request.path_params:
            named = request.path_params["id"]
            named = named.replace("%2F", "/") if isinstance(named, str) else named
            if "id" in data and data["id"] != named:
                raise _fault("id", "given in the path and in the body, and not the same", "the id in the path alone")
            data["id"] = named
        if route.idempotent and "idempotency-key" in request.headers:
            data["idempotency_key"] = request.headers["idempotency-key"]
        _add_query(request, route, data)
        return data

    async def _body(self, request: Request) -> Plain:
        """Return the body, an object; an empty body is an empty one."""
        kind = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, f"the content type is {kind[:80]}; allowed: application/json")
        raw = bytearray()
        async for piece in request.stream():
            raw += piece
            if len(raw) > self._limits.body_bytes:
                raise HTTPException(413, f"the body is too large; allowed: {self._limits.body_bytes:,} bytes")
        if not raw.strip():
            return {}
        try:
            data, repeated = parse_json(raw.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise _fault("(body)", f"byte {error.start} is not UTF-8 text", "JSON in UTF-8") from None
        except JsonProblem as problem:
            where = f" (line {problem.line}, column {problem.column})" if problem.line else ""
            raise _fault("(body)", f"{problem.wrong}{where}", "a JSON object") from None
        if repeated:
            names = ["/".join(map(str, each.path)) for each in repeated]
            raise InputError(Fault("request", None, name, "the key is given twice", "each key once") for name in names)
        if not isinstance(data, dict):
            raise _fault("(body)", "is no object", "a JSON object")
        return data


def _fault(field: str, wrong: str, allowed: str) -> InputError:
    return InputError([Fault("request", None, field, wrong, allowed)])


def _add_query(request: Request, route: Route, data: Plain) -> None:
    """Put what the query says into the request. Raises InputError."""
    faults: list[Fault] = []
    for key in request.query_params:
        if key not in route.query:
            allowed = f"known keys: {', '.join(route.query) or '(none)'}"
            faults.append(Fault("request", None, key[:80], "unknown key of the query", allowed))
            continue
        field, kind = route.query[key]
        given = request.query_params.getlist(key)
        try:
            value: object = given if kind == WORDS else _value(given[-1], kind)
        except ValueError:
            faults.append(Fault("request", None, key, f"given {given[-1][:80]!r}", f"a {kind}"))
            continue
        place, _, name = field.rpartition(".")
        inside = data.setdefault(place, {}) if place else data
        assert isinstance(inside, dict)
        inside[name] = value
    if faults:
        raise InputError(faults)


def _value(text: str, kind: str) -> object:
    if kind == INTEGER:
        return int(text)
    return float(text) if kind == NUMBER else text


def _caller(request: Request, call: str, gate: Gate) -> Caller:
    """Return who calls, by its token. Raises what the gate raises."""
    peer = "" if request.client is None else f"{request.client.host}:{request.client.port}"
    return gate.enter(call, bearer_of(request.headers.get("authorization")), None, peer)


def _success(route: Route, answer: Plain) -> Response:
    status = 200 if answer.get("repeated_call") else route.status
    return JSONResponse(_opened(answer), status)


def _opened(answer: Plain) -> Plain:
    """Return an answer with the JSON that is text in the contract as the data that it is."""
    found = dict(answer)
    if isinstance(found.get("json"), str):
        found["json"] = json.loads(str(found["json"]) or "null")
    rows = found.get("changes")
    if isinstance(rows, list):
        found["changes"] = [_opened(row) for row in rows]
    return found


def _failure(route: Route, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        raise error
    if not isinstance(error, OptschedError) or isinstance(error, InternalError):
        log.error("a call failed: a bug", exc_info=error, extra={"method": route.call})
    return _refusal(_as_given(answer_of(error), route))


def _refusal(answer: Answer) -> Response:
    headers = {}
    if answer.http == 401:
        headers["www-authenticate"] = "Bearer"
    if answer.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(answer.retry_after_s)))
    elif answer.http == 503:
        headers["retry-after"] = "1"
    return JSONResponse(body_of(answer), answer.http, headers=headers)


def _as_given(answer: Answer, route: Route) -> Answer:
    """Return an answer with its fields named as the caller gave them: the body is a field of the contract's request."""
    if route.body is None or not answer.violations:
        return answer
    named = tuple(replace(each, field=each.field.removeprefix(f"{route.body}.")) for each in answer.violations)
    message = "; ".join(f"{each.field}: {each.wrong}; allowed: {each.allowed}" for each in named)
    return replace(answer, violations=named, message=message)


def _event(row: Plain) -> bytes:
    sequence = row.get("sequence")
    name = f"id: {sequence}\n" if sequence is not None else ""
    return f"{name}data: {json.dumps(row, separators=(',', ':'))}\n\n".encode()

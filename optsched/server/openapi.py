"""The OpenAPI document of the REST routes: requests from the models that check them, answers from the contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pydantic import BaseModel

import optsched
from optsched.files.schema import ReservationIn, TeamIn
from optsched.server import asked
from optsched.server.routes import INTEGER, WORDS, Route
from optsched.wire.convert import word_of
from optsched.wire.v1 import cluster_pb2, scheduler_pb2

Schema = dict[str, Any]

_CHECKED_APART: dict[str, dict[str, type[BaseModel]]] = {
    "SubmitJobsRequest": {"jobs": asked.JobAsked},
    "PlanRequest": {"jobs": asked.JobAsked},
    "SetNodesRequest": {"nodes": asked.NodeAsked},
    "SetTeamsRequest": {"teams": TeamIn},
}
"""Lists whose entries a request's own model leaves to another one."""

_RENAMED = {"beneficiaries": "for"}
"""Fields of the contract that plain data calls otherwise."""

_MAPPINGS = {"placement", "claim"}
"""Lists of what is on each node: plain data has a mapping of nodes to a count or to indices."""

_WORDS_TOO = {
    "priority_class": "priority",
    "max_priority_class": "max_priority",
    "text_value": "value",
    "number": "value",
}
"""Choices of two fields that plain data has as one key, a number or a word."""


def document(routes: Iterable[Route]) -> Schema:
    """Return the OpenAPI document of routes."""
    made = _Schemas()
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, made)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "optsched",
            "version": optsched.__version__,
            "description": "Which training jobs run on which GPUs. The same calls as service/proto/optsched/v1.",
        },
        "paths": paths,
        "components": {"schemas": made.found | {"Error": _ERROR}},
    }


_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "a gRPC status code's name"},
                "message": {"type": "string"},
                "violations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["field", "wrong", "allowed"],
                        "properties": {key: {"type": "string"} for key in ("field", "wrong", "allowed")},
                    },
                },
            },
        }
    },
}


def _operation(route: Route, made: _Schemas) -> Schema:
    request, answer = _messages(route)
    found: Schema = {
        "operationId": route.call,
        "summary": route.about,
        "tags": [route.call.partition(".")[0]],
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route, answer, made),
    }
    if route.idempotent:
        found["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "schema": {"type": "string", "maxLength": 253, "pattern": "^[!-~]*$"},
                "description": "the same key again returns the first answer",
            }
        )
    if route.takes_body:
        schema = made.request(request.name, route)
        found["requestBody"] = {
            "required": bool(schema.get("required")) or route.body is not None,
            "content": {"application/json": {"schema": schema}},
        }
    return found


def _messages(route: Route) -> tuple[Descriptor, Descriptor]:
    service, _, name = route.call.partition(".")
    file = scheduler_pb2 if service == "Scheduler" else cluster_pb2
    method = file.DESCRIPTOR.services_by_name[service].methods_by_name[name]
    return method.input_type, method.output_type


def _path_parameters(route: Route) -> list[Schema]:
    if "{id}" not in route.path:
        return []
    kind: Schema = {"type": "string", "maxLength": 253}
    if route.call == "Scheduler.GetRound":
        kind = {"type": "integer", "minimum": 1}
    return [{"name": "id", "in": "path", "required": True, "schema": kind}]


def _query_parameters(route: Route) -> list[Schema]:
    found = []
    for key, (_, kind) in route.query.items():
        schema: Schema = {"type": kind}
        if kind == WORDS:
            schema["items"] = {"type": "string"}
        elif kind == INTEGER:
            schema["format"] = "int64"
        found.append({"name": key, "in": "query", "schema": schema})
    return found


def _responses(route: Route, answer: Descriptor, made: _Schemas) -> Schema:
    ref = made.message(answer)
    kind = "text/event-stream" if route.streams else "application/json"
    done = {"description": "done", "content": {kind: {"schema": ref}}}
    found: Schema = {str(route.status): done}
    if route.idempotent:
        found["200"] = {**done, "description": "known already: it is as the first answer said"}
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    for status, about in _FAILURES.items():
        found[status] = {"description": about, **error}
    return found


_FAILURES = {
    "400": "the request is wrong: each field is named",
    "401": "a token is needed",
    "403": "the token is not for that",
    "404": "what it names does not exist",
    "408": "the body did not come in time",
    "409": "the state of things does not allow it",
    "410": "it goes on from what is kept no longer",
    "413": "the body is too large",
    "415": "the body is no JSON",
    "429": "there is more to do than is taken in: try again after Retry-After",
    "500": "a bug",
    "501": "not served by this version",
    "503": "the scheduler does not lead, or cannot store: try again",
    "504": "not done in time",
    "507": "no room is left to store anything",
}


class _Schemas:
    """Schemas that were made, by name."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}

    def request(self, name: str, route: Route) -> Schema:
        """Return the schema of a request's body."""
        if route.body == "job":
            return self._model(asked.JobAsked)
        model = cast("type[BaseModel]", getattr(asked, name))
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        for key, inner in schema.pop("$defs", {}).items():
            self.found.setdefault(key, inner)
        for key, entry in _CHECKED_APART.get(name, {}).items():
            schema["properties"][key]["items"] = self._model(entry)
        if name == "SetReservationRequest":
            schema["properties"]["reservation"] = self._model(ReservationIn)
        for key in ("id",) if "{id}" in route.path else ():
            schema["properties"].pop(key, None)
            schema["required"] = [each for each in schema.get("required", []) if each != key]
        if not schema.get("required"):
            schema.pop("required", None)
        return schema

    def _model(self, model: type[BaseModel]) -> Schema:
        name = model.__name__
        if name not in self.found:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            for key, inner in schema.pop("$defs", {}).items():
                self.found.setdefault(key, inner)
            self.found[name] = schema
        return {"$ref": f"#/components/schemas/{name}"}

    def message(self, message: Descriptor) -> Schema:
        """Return the schema of an answer."""
        name = message.name
        if name not in self.found:
            self.found[name] = {"type": "object"}
            properties: dict[str, Schema] = {}
            for field in message.fields:
                key = _RENAMED.get(field.name, field.name)
                if field.name in _WORDS_TOO:
                    properties[_WORDS_TOO[field.name]] = {"type": ["number", "string", "null"]}
                elif field.name == "gpus_by_type":
                    properties["gpus"] = {"type": ["integer", "object"]}
                elif field.name != "gpu_indices":
                    properties.setdefault(key, self._field(field))
            if any(field.name == "gpu_indices" for field in message.fields):
                properties["gpus"] = {"type": ["integer", "array"]}
            self.found[name]["properties"] = properties
        return {"$ref": f"#/components/schemas/{name}"}

    def _field(self, field: FieldDescriptor) -> Schema:
        if field.name in _MAPPINGS:
            return {"type": "object", "additionalProperties": {"type": ["integer", "array"]}}
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return {"type": ["object", "array"]}
        one = self._one(field)
        return {"type": "array", "items": one} if field.is_repeated else one

    def _one(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            return self.message(field.message_type)
        if field.enum_type is not None:
            enum = field.enum_type
            return {"type": "string", "enum": [word_of(enum, each.number) for each in enum.values if each.number]}
        if field.name == "json":
            return {}
        kinds = {field.CPPTYPE_STRING: "string", field.CPPTYPE_BOOL: "boolean", field.CPPTYPE_DOUBLE: "number"}
        kind = kinds.get(field.cpp_type, "integer")
        return {"type": [kind, "null"]} if field.has_presence else {"type": kind}

"""The description of the HTTP interface, written from the routes themselves."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from flowfabric import __version__
from flowfabric.wire import routes
from flowfabric.wire.answers import OneOf, alternatives
from flowfabric.wire.errors import ErrorView
from flowfabric.wire.examples import WAITPOINT
from flowfabric.wire.fields import END, EXECUTION_ID
from flowfabric.wire.rights import Right
from flowfabric.wire.route import FORM, JSON, Route

_TEMPLATE: Final = "#/components/schemas/{name}"
Schema = dict[str, Any]
_RIGHTS: Final = {
    Right.NOTHING: "Open to everybody.",
    Right.READ: "For every role.",
    Right.SUBMIT: "For submitters, workers, operators and administrators.",
    Right.WORK: "For workers, operators and administrators.",
    Right.SIGNAL: "For submitters, workers, operators and administrators.",
    Right.OPERATE: "For operators and administrators.",
    Right.ADMIN: "For administrators.",
}

_PATH: Final[dict[str, tuple[str, str]]] = {
    "id": ("Id of an execution.", EXECUTION_ID),
    "worker_id": ("Name of a worker.", "worker-1"),
    "lane": ("Name of a lane.", "default"),
    "kind": ("Name of a kind.", "resize"),
    "idx": ("Index of an attempt, from 0.", "0"),
    "name": ("Name of a step.", "fetch"),
    "waitpoint_id": ("Id of a waitpoint.", WAITPOINT),
    "token_id": ("Id of a token.", WAITPOINT),
    "signed": ("What signs the link.", "…"),
}
_FIRST: Final = ("submit", "workers", "executions", "waitpoints", "kinds", "lanes")
_LAST_EVENT_ID: Final[Schema] = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The id of the last message that was seen.",
}
_ABOUT: Final = (
    "Durable execution over HTTP. Times are milliseconds since 1970. Every 4xx and 5xx has one body: `error` says what"
    " is wrong in words, `code` what happened, `retryable` whether the same call may succeed later. 429 and 503 carry"
    " `Retry-After`. Every answer carries `X-Request-Id`. Unknown fields and parameters are ignored."
)


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document of every route."""
    every = sorted(routes(), key=lambda route: (route.path, route.method))
    schemas = _Schemas(every)
    paths: dict[str, dict[str, Any]] = {}
    for route in every:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    written = {
        "openapi": "3.1.0",
        "info": {
            "title": "FlowFabric",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in sorted({_tag(route) for route in every}, key=_rank)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {name: _refusal(text) for name, text in _REFUSALS.values()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    text = msgspec.json.encode(written).decode()  # tuples become lists, as readers see them
    # In the patterns of JSON Schema a dollar is the end of the text and nothing else.
    plain: dict[str, Any] = json.loads(text.replace(json.dumps(END)[1:-1], "$"))
    return plain


class _Schemas:
    """The schemas of the structs that routes take and give."""

    def __init__(self, every: Iterable[Route]) -> None:
        bodies = [route.body for route in every if route.body is not None]
        self._bodies, self.components = _generated(bodies)
        queries = [route.query for route in every if route.query is not None]
        self._queries, forms = _generated(queries)
        self._forms = {query: forms[_name(schema)] for query, schema in self._queries.items()}
        answers = [kind for route in every for kind in _answer_types(route)]
        self._answers, shown = _generated([ErrorView, *alternatives(), *answers])
        for name, kind in _structs(msgspec.inspect.multi_type_info([ErrorView, *alternatives(), *answers])):
            _describe_answer(shown[name], kind)
        self.components |= shown

    def body(self, route: Route) -> Schema:
        """Return the schema of a body."""
        return self._bodies[route.body]

    def query(self, route: Route) -> Schema:
        """Return the schema of a query, whose properties are the parameters."""
        return self._forms[route.query]

    def answer(self, route: Route) -> Schema:
        """Return the schema of an answer."""
        if not isinstance(route.answer, OneOf):
            return self._answers[route.answer]
        every: list[Schema] = [
            {
                "type": "object",
                "properties": {name: self._answers[kind]},
                "required": [name],
                "additionalProperties": False,
            }
            for name, kind in route.answer.shapes.items()
        ]
        if route.answer.words:
            every.insert(0, {"type": "string", "enum": route.answer.words})
        return every[0] if len(every) == 1 else {"oneOf": every}


def _structs(found: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Find the structs inside types, by name."""
    for each in found:
        if isinstance(each, msgspec.inspect.StructType):
            yield each.cls.__name__, each.cls
            yield from _structs(field.type for field in each.fields)
        else:
            inner = (getattr(each, name, None) for name in ("item_type", "value_type", "type"))
            yield from _structs([kind for kind in inner if kind is not None])
            yield from _structs(getattr(each, "types", ()))


def _describe_answer(schema: Schema, kind: Any) -> None:
    """Say which fields an answer always has; a default is left out of it, or is a value like any other."""
    for name, each in schema["properties"].items():
        each.pop("default", None)
        if name == "execution_id":
            each["examples"] = [EXECUTION_ID]
    omitted = kind.__struct_config__.omit_defaults
    schema["required"] = [
        field.encode_name
        for field in msgspec.structs.fields(kind)
        if field.required or not (omitted or field.default is msgspec.UNSET)
    ] + [name for name in schema["properties"] if name == kind.__struct_config__.tag_field]


def _answer_types(route: Route) -> list[Any]:
    if route.answer is None:
        return []
    return list(route.answer.shapes.values()) if isinstance(route.answer, OneOf) else [route.answer]


def _generated(kinds: list[Any]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    """Return the schema of each type, and the components that they refer to."""
    found, components = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    for schema in components.values():
        if "description" in schema:  # a docstring, which Python keeps with its indentation before 3.13
            schema["description"] = inspect.cleandoc(schema["description"])
        if "enum" in schema:
            schema["type"] = "string"
    return dict(zip(kinds, found, strict=True)), components


def _name(schema: Schema) -> str:
    name: str = schema["$ref"].rpartition("/")[2]
    return name


_REFUSALS: Final[dict[int, tuple[str, str]]] = {
    400: ("BadRequest", "The request is wrong; `field` names where."),
    401: ("Unauthorized", "The token is missing or wrong."),
    403: ("Forbidden", "The token does not open this, or a page of another site sent it."),
    404: ("NotFound", "There is no such thing."),
    409: ("Conflict", "The state of things does not allow it."),
    413: ("TooLarge", "The body is too large; `limit_bytes` says how large it may be."),
    415: ("WrongType", "Send application/json, not compressed."),
    422: ("WrongShape", "The body is JSON of another shape; `field` names where."),
    429: ("TooMany", "Too much at once; try again after `Retry-After` seconds."),
    503: ("Unavailable", "Not now; try again after `Retry-After` seconds."),
}


def _refusal(text: str) -> Schema:
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": _TEMPLATE.format(name=ErrorView.__name__)}}},
    }


def _tag(route: Route) -> str:
    parts = [part for part in route.path.split("/") if part]
    if parts[:1] == ["v1"]:
        return parts[1]
    return parts[0] if len(parts) > 1 else "server"


def _rank(tag: str) -> tuple[int, str]:
    """Order tags as a reader needs them: how work comes in and who does it first."""
    return (_FIRST.index(tag) if tag in _FIRST else len(_FIRST), tag)


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": _RIGHTS[route.right],
        "tags": [_tag(route)],
        "parameters": [*_path_parameters(route), *_query_parameters(route, schemas)],
        "responses": _responses(route, schemas),
    }
    if route.media == "text/event-stream":
        operation["parameters"].append(_LAST_EVENT_ID)
    if route.body is not None:
        content: Schema = {"schema": schemas.body(route)}
        if route.example is not None:
            content["example"] = route.example
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {FORM if route.form else JSON: content},
            "description": f"At most {route.limit} bytes.",
        }
    operation["security"] = [] if route.right is Right.NOTHING else [{"token": []}]
    return operation


def _path_parameters(route: Route) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH.get(name, ("", ""))[0],
            "schema": {"type": "string", "minLength": 1},
            "example": _PATH.get(name, ("", "x"))[1],
        }
        for name in route.parameters
    ]


def _query_parameters(route: Route, schemas: _Schemas) -> Iterable[Schema]:
    if route.query is None:
        return
    form = schemas.query(route)
    for name, schema in form["properties"].items():
        parameter: Schema = {
            "name": name,
            "in": "query",
            "required": name in form.get("required", ()),
            "schema": schema,
        }
        if "description" in schema:
            parameter["description"] = schema["description"]
        yield parameter


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    """Describe what a route says; everything that it refuses has the one body of errors."""
    found: dict[str, Any] = {}
    for status, text in route.statuses:
        answer: dict[str, Any] = {"description": text}
        if status >= 400:
            answer = _refusal(text)
        elif status != 204:
            answer["content"] = _content(route, status, schemas)
        found[str(status)] = answer
    refusals = {400, 404, 503}
    if route.right is not Right.NOTHING:
        refusals |= {401, 403, 429}
    if route.method != "GET":
        refusals |= {403, 409, 413, 415}
    if route.body is not None:
        refusals.add(422)
    for status in sorted(refusals):
        found.setdefault(str(status), {"$ref": f"#/components/responses/{_REFUSALS[status][0]}"})
    found["default"] = _refusal("Anything else that went wrong.")
    return found


def _content(route: Route, status: int, schemas: _Schemas) -> Schema:
    if route.media != JSON:
        return {route.media: {"schema": {"type": "string"}}}
    content: Schema = {"schema": schemas.answer(route)}
    if status in route.examples:
        content["example"] = route.examples[status]
    return {JSON: content}


def written() -> str:
    """Return the document as it is kept among the documentation."""
    return json.dumps(document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"

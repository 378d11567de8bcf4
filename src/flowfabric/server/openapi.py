"""The description of the HTTP interface, written from the routes themselves."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from flowfabric import __version__
from flowfabric.server.answers import ANSWERS, PLAIN, SHAPES, Schema, ref
from flowfabric.server.examples import ANSWER_EXAMPLES, BODY_EXAMPLES, EXECUTION_ID
from flowfabric.server.forms import END
from flowfabric.server.roles import Need
from flowfabric.server.routes import load_routes
from flowfabric.server.routing import FORM_TYPE, Endpoint, endpoints

_TEMPLATE: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NEEDS: Final = {
    Need.NOTHING: "Open to everybody.",
    Need.READ: "For every role.",
    Need.SUBMIT: "For submitters, workers, operators and administrators.",
    Need.WORK: "For workers, operators and administrators.",
    Need.SIGNAL: "For submitters, workers, operators and administrators.",
    Need.OPERATE: "For operators and administrators.",
    Need.ADMIN: "For administrators.",
}

_PATH: Final[dict[str, tuple[str, str]]] = {
    "id": ("Id of an execution.", EXECUTION_ID),
    "worker_id": ("Name of a worker.", "worker-1"),
    "lane": ("Name of a lane.", "default"),
    "kind": ("Name of a kind.", "resize"),
    "idx": ("Index of an attempt, from 0.", "0"),
    "name": ("Name of a step.", "fetch"),
    "waitpoint_id": ("Id of a waitpoint.", "0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"),
    "token_id": ("Id of a token.", "0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"),
    "signed": ("What signs the link.", "…"),
}
_FIRST: Final = ("submit", "workers", "executions", "waitpoints", "kinds", "lanes")
_LAST_EVENT_ID: Final[Schema] = {
    "name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string"},
    "description": "The id of the last message that was seen.",
}  # fmt: skip
_ABOUT: Final = (
    "Durable execution over HTTP. Times are milliseconds since 1970. Every 4xx and 5xx has one body: `error` says what"
    " is wrong in words, `code` what happened, `retryable` whether the same call may succeed later. 429 and 503 carry"
    " `Retry-After`. Every answer carries `X-Request-Id`. Unknown fields and parameters are ignored."
)


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document of every route."""
    load_routes()
    routes = sorted(endpoints(), key=lambda route: (route.path, route.method))
    forms = [form for route in routes for form in (route.body, route.query) if form is not None]
    _, components = msgspec.json.schema_components(forms, ref_template=_TEMPLATE)
    for schema in components.values():
        if "description" in schema:  # a docstring, which Python keeps with its indentation before 3.13
            schema["description"] = inspect.cleandoc(schema["description"])
    names = _names(forms)
    queries = {names[route.query] for route in routes if route.query is not None}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        place = paths.setdefault(route.path, {})
        place[route.method.lower()] = _operation(route, names, components)
    written = {
        "openapi": "3.1.0",
        "info": {
            "title": "FlowFabric", "version": __version__, "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in sorted({_tag(route) for route in routes}, key=_rank)],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries} | SHAPES,
            "responses": {name: _refusal(text) for name, text in _REFUSALS.values()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }  # fmt: skip
    text = msgspec.json.encode(written).decode()  # tuples become lists, as readers see them
    # In the patterns of JSON Schema a dollar is the end of the text and nothing else.
    plain: dict[str, Any] = json.loads(text.replace(json.dumps(END)[1:-1], "$"))
    return plain


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
    return {"description": text, "content": {"application/json": {"schema": ref("Error")}}}


def _names(forms: Iterable[Any]) -> dict[Any, str]:
    """Learn under which name each struct stands among the components."""
    found = {}
    for form in forms:
        (schema,), _ = msgspec.json.schema_components([form], ref_template=_TEMPLATE)
        found[form] = schema["$ref"].rpartition("/")[2]
    return found


def _tag(route: Endpoint) -> str:
    parts = [part for part in route.path.split("/") if part]
    if parts[:1] == ["v1"]:
        return parts[1]
    return parts[0] if len(parts) > 1 else "server"


def _rank(tag: str) -> tuple[int, str]:
    """Order tags as a reader needs them: how work comes in and who does it first."""
    return (_FIRST.index(tag) if tag in _FIRST else len(_FIRST), tag)


def _key(route: Endpoint) -> str:
    return f"{route.method} {route.path}"


def _operation(route: Endpoint, names: dict[Any, str], components: dict[str, Schema]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary.split("\n")[0],
        "description": _NEEDS[route.need],
        "tags": [_tag(route)],
        "parameters": [*_path_parameters(route), *_query_parameters(route, names, components)],
        "responses": _responses(route),
    }
    if PLAIN.get(_key(route)) == "text/event-stream":
        operation["parameters"].append(_LAST_EVENT_ID)
    if route.body is not None:
        content: Schema = {"schema": ref(names[route.body])}
        if (example := BODY_EXAMPLES.get(_key(route))) is not None:
            content["example"] = example
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {FORM_TYPE if route.form else "application/json": content},
            "description": f"At most {route.limit} bytes.",
        }  # fmt: skip
    operation["security"] = [] if route.need is Need.NOTHING else [{"token": []}]
    return operation


def _path_parameters(route: Endpoint) -> list[Schema]:
    return [
        {
            "name": name, "in": "path", "required": True, "description": _PATH.get(name, ("", ""))[0],
            "schema": {"type": "string", "minLength": 1}, "example": _PATH.get(name, ("", "x"))[1],
        }
        for name in _PARAMETER.findall(route.path)
    ]  # fmt: skip


def _query_parameters(
    route: Endpoint, names: dict[Any, str], components: dict[str, Schema]
) -> Iterable[Schema]:
    if route.query is None:
        return
    form = components[names[route.query]]
    for name, schema in form["properties"].items():
        parameter: Schema = {
            "name": name, "in": "query", "required": name in form.get("required", ()), "schema": schema,
        }  # fmt: skip
        if "description" in schema:
            parameter["description"] = schema["description"]
        yield parameter


def _responses(route: Endpoint) -> dict[str, Any]:
    """Describe what a route says; everything that it refuses has the one body of errors."""
    key = _key(route)
    found: dict[str, Any] = {}
    for status, text in route.answers:
        answer: dict[str, Any] = {"description": text}
        if status >= 400:
            answer = _refusal(text)
        elif status != 204:
            answer["content"] = _content(key, status)
        found[str(status)] = answer
    refusals = {400, 404, 503}
    if route.need is not Need.NOTHING:
        refusals |= {401, 403, 429}
    if route.method != "GET":
        refusals |= {403, 409, 413, 415}
    if route.body is not None:
        refusals.add(422)
    for status in sorted(refusals):
        found.setdefault(str(status), {"$ref": f"#/components/responses/{_REFUSALS[status][0]}"})
    found["default"] = _refusal("Anything else that went wrong.")
    return found


def _content(key: str, status: int) -> Schema:
    if key in PLAIN:
        return {PLAIN[key]: {"schema": {"type": "string"}}}
    content: Schema = {"schema": ANSWERS.get(key, {})}
    if (example := ANSWER_EXAMPLES.get(key, {}).get(status)) is not None:
        content["example"] = example
    return {"application/json": content}


def undescribed() -> list[str]:
    """Name the routes whose answer nobody has described, and descriptions of routes that are gone."""
    load_routes()
    routes = {_key(route) for route in endpoints()}
    described = ANSWERS.keys() | PLAIN.keys()
    examples = BODY_EXAMPLES.keys() | ANSWER_EXAMPLES.keys()
    return sorted(routes ^ described) + sorted(examples - routes)


def written() -> str:
    """Return the document as it is kept among the documentation."""
    return json.dumps(document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"

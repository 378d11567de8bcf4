"""What the classic routes owe to compatibility.

The routes with `classic=True` take and give what the FlowFabric server that was written before this one took and gave,
so that its clients work unchanged: `POST /v1/executions` and the reads of one execution, `signal`, `cancel`,
`priority`, `replay`, `revoke-lease`, the claim in two steps, streams, health, metrics and the rotation of the secret.

Compatibility means:

- `kind` in an error is the family of the refusal (`contention`, `terminal`, `state_conflict` …) and not its code, and
  the text begins with it: `errors.from_engine(…, classic=True)`.
- Bytes in bodies are arrays of integers (`ByteList`); `{"base64": …}` is accepted besides.
- Bodies repeat ids of the path, and carry the clock of the caller (`now`), which nothing uses.
- A policy field of the wrong type is a malformed body (422) and not a bad request (400); a null option is absent.
- Names of workers, lanes and capabilities are refused in the words of that server: `check_asker`, `capabilities`.
- Times of an execution are text, and so is the epoch of a revoked lease.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, UnsetType

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import MAX_CAPABILITIES, MAX_CAPABILITY_BYTES, MAX_GRANT_TTL_MS, MAX_NAME_BYTES
from flowfabric.wire.errors import BAD_SHAPE, HttpError, bad_request, unprocessable
from flowfabric.wire.payload import from_base64

Byte = Annotated[int, Meta(ge=0, le=255)]
_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]|\s")


class Base64(Struct, frozen=True):
    """Bytes as base64, where an array of integers would be long."""

    base64: str


ByteList = list[Byte] | Base64
"""Bytes: an array of integers, or `{"base64": …}`."""


def to_bytes(field: str, value: list[int] | Base64 | None) -> bytes:
    """Read bytes."""
    if value is None:
        return b""
    return from_base64(field, value.base64) if isinstance(value, Base64) else bytes(value)


def policy_text(raw: msgspec.Raw | UnsetType) -> bytes:
    """Return a policy as it was sent; options that are null are taken as absent."""
    text = b"" if isinstance(raw, UnsetType) else bytes(raw)
    if text in {b"", b"null"}:
        return b""
    if not text.startswith(b"{"):
        raise unprocessable("policy", "must be an object")
    if b"null" not in text:
        return text
    try:
        return msgspec.json.encode(_without_nulls(msgspec.json.decode(text)))
    except (msgspec.DecodeError, RecursionError):
        return text  # the engine says what is wrong with it


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(each) if isinstance(each, dict) else each
        for name, each in value.items()
        # Routing that is null would lift a requirement that somebody meant to make: the engine refuses it.
        if each is not None or name == "routing_requirements"
    }


def misshapen_policy(error: FlowFabricError) -> HttpError | None:
    """Return the refusal of a body whose policy has a field of the wrong type; None for any other error."""
    detail = error.details[0] if error.details else ""
    if error.code != "invalid_policy_json" or detail.startswith(("malformed", "routing_requirements:")):
        return None
    return HttpError(422, f"{BAD_SHAPE}: {error.text}", error.code, kind=error.code, field="policy")


def check_asker(worker_id: str, worker_instance_id: str, lane_id: str, grant_ttl_ms: int) -> None:
    """Refuse a worker, a lane or a time to live that a grant cannot have."""
    _check_worker("worker_id", worker_id)
    _check_worker("worker_instance_id", worker_instance_id)
    try:
        checks.lane(lane_id)
    except FlowFabricError as error:
        raise bad_request(f"lane_id: {error.text}", field="lane_id") from error
    if not 1 <= grant_ttl_ms <= MAX_GRANT_TTL_MS:
        raise bad_request(f"grant_ttl_ms must be in 1..={MAX_GRANT_TTL_MS}", field="grant_ttl_ms")


def _check_worker(field: str, value: str) -> None:
    size = len(value.encode("utf-8", "surrogatepass"))
    if not value:
        raise bad_request(f"{field}: must not be empty", field=field)
    if size > MAX_NAME_BYTES:
        raise bad_request(f"{field}: exceeds {MAX_NAME_BYTES} bytes (got {size})", field=field)
    if _BLANK_OR_CONTROL.search(value):
        raise bad_request(f"{field}: must not contain whitespace or control characters", field=field)


def capabilities(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return capabilities, each once and in order; refuse those that a list with commas cannot hold."""
    for token in tokens:
        if not token:
            raise _bad_capability("capability token must not be empty")
        if "," in token:
            raise _bad_capability(f"capability token may not contain ',' (the delimiter): {token}")
        if _BLANK_OR_CONTROL.search(token):
            raise _bad_capability(
                f"capability token must not contain whitespace or control characters: {token!r}"
            )
    distinct = tuple(sorted(set(tokens)))
    if len(distinct) > MAX_CAPABILITIES:
        raise _bad_capability(f"capability set exceeds CAPS_MAX_TOKENS ({MAX_CAPABILITIES}): {len(distinct)}")
    size = len(",".join(distinct).encode())
    if size > MAX_CAPABILITY_BYTES:
        raise _bad_capability(f"capability CSV exceeds CAPS_MAX_BYTES ({MAX_CAPABILITY_BYTES}): {size}")
    return distinct


def _bad_capability(text: str) -> HttpError:
    return bad_request(f"invalid_input: {text}", field="capabilities")

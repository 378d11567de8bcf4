"""What each route answers with, as JSON schemas. Objects may have more fields than are named here."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.state import (
    AttemptState,
    Blocking,
    Eligibility,
    Outcome,
    Ownership,
    Phase,
    Public,
)

Schema = dict[str, Any]
ANY: Final[Schema] = {}
TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
YES_NO: Final[Schema] = {"type": "boolean"}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
MAP: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
COUNTS: Final[Schema] = {"type": "object", "additionalProperties": WHOLE}
TIME: Final[Schema] = {"type": "integer", "description": "milliseconds since 1970"}


def shape(maybe: str = "", /, **fields: Schema) -> Schema:
    """An object; the fields named in `maybe` may be absent."""
    absent = set(maybe.split())
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in absent],
    }


def several(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    """The thing, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(*words: str, **variants: Schema) -> Schema:
    """One word, or an object with exactly one key that says which variant it is."""
    tagged = [shape(**{name: inner}) | {"additionalProperties": False} for name, inner in variants.items()]
    plain: list[Schema] = [{"type": "string", "enum": list(words)}] if words else []
    every = plain + tagged
    return every[0] if len(every) == 1 else {"oneOf": every}


def ref(name: str) -> Schema:
    """A shape that has a name."""
    return {"$ref": f"#/components/schemas/{name}"}


def page(name: str, items: Schema) -> Schema:
    """One page of a list."""
    return shape(**{name: several(items), "next_cursor": or_null(TEXT)})


def _words(kind: Any) -> Schema:
    return {"type": "string", "enum": [str(word) for word in kind]}


STATE: Final = ref("PublicState")
_ID: Final[Schema] = {"type": "string", "examples": ["{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"]}
_SUMMARY: Final = {
    "execution_id": _ID, "namespace": TEXT, "lane_id": TEXT, "execution_kind": TEXT, "public_state": STATE,
    "priority": WHOLE, "created_at": TIME, "started_at": TIME, "completed_at": TIME, "attempt_index": WHOLE,
    "flow_id": or_null(TEXT), "progress_pct": WHOLE, "blocking_reason": TEXT, "tags": MAP,
}  # fmt: skip
_MAYBE: Final = "started_at completed_at flow_id progress_pct blocking_reason"
_OPEN_WAITPOINT: Final = shape(waitpoint_id=TEXT, waitpoint_key=TEXT, waitpoint_token=TEXT)
_STEP: Final = {
    "result": ANY, "result_base64": TEXT, "call_index": WHOLE, "at": TIME, "encoding": TEXT,
}  # fmt: skip
_WAITPOINT: Final = {
    "waitpoint_id": TEXT, "waitpoint_key": TEXT, "state": TEXT, "required_signal_names": TEXTS, "created_at": TIME,
    "execution_id": _ID, "token_kid": TEXT, "token_fingerprint": TEXT, "activated_at": TIME, "expires_at": TIME,
    "message": TEXT, "details": ANY,
}  # fmt: skip
_SUSPENSION: Final = {
    "suspension_id": TEXT, "waitpoint_id": TEXT, "waitpoint_key": TEXT, "waitpoint_token": TEXT,
    "additional_waitpoints": several(_OPEN_WAITPOINT),
}  # fmt: skip
_GRANT: Final = {"execution_id": _ID, "partition_key": TEXT, "grant_key": TEXT, "expires_at_ms": TIME}
_CREATED: Final = {"execution_id": _ID, "public_state": STATE}
_FAULT: Final = {"error": TEXT, "kind": TEXT, "code": TEXT, "retryable": YES_NO}

SHAPES: Final[dict[str, Schema]] = {
    "Error": {
        **shape(
            "field details limit_bytes route",
            error=TEXT, code=TEXT, retryable=YES_NO, request_id=TEXT, kind=TEXT, field=TEXT, details=ANY,
            limit_bytes=WHOLE, route=TEXT,
        ),
        "description": "What every 4xx and 5xx carries.",
    },
    "PublicState": _words(Public),
    "StateVector": shape(
        lifecycle_phase=_words(Phase), ownership_state=_words(Ownership), eligibility_state=_words(Eligibility),
        blocking_reason=_words(Blocking), terminal_outcome=_words(Outcome), attempt_state=_words(AttemptState),
        public_state=STATE,
    ),
    "Summary": shape(_MAYBE, **_SUMMARY),
    "Submitted": shape(execution_id=_ID, public_state=or_null(STATE), duplicate=YES_NO),
    "Fence": shape(lease_id=TEXT, lease_epoch=WHOLE, attempt_id=TEXT),
    "Signal": shape(
        "payload payload_base64",
        signal_id=TEXT, signal_name=TEXT, signal_category=TEXT, source_type=TEXT, source_identity=TEXT,
        correlation_id=TEXT, accepted_at=TIME, payload=TEXT, payload_base64=TEXT,
    ),
    "Task": shape(
        "input input_base64 resume",
        execution_id=_ID, execution_kind=TEXT, namespace=TEXT, lane_id=TEXT, flow_id=or_null(TEXT), priority=WHOLE,
        attempt_index=WHOLE, attempt_id=TEXT,
        attempt_type={"type": "string", "enum": ["initial", "retry", "replay", "reclaim", "resumed"]},
        fence=ref("Fence"), lease_expires_at=TIME, input=ANY, input_base64=TEXT, payload_encoding=or_null(TEXT),
        tags=MAP, policy=ANY, resume=or_null(shape(suspension_id=TEXT, step_name=or_null(TEXT), reason=TEXT)),
        resume_signals=several(ref("Signal")), steps={"type": "object", "additionalProperties": ref("Step")},
    ),
    "Step": shape("result result_base64", **_STEP),
    "NamedStep": shape("result result_base64 size", name=TEXT, size=WHOLE, **_STEP),
    "Waitpoint": shape("activated_at expires_at message details", **_WAITPOINT),
    "HistoryEvent": shape(
        "reason",
        seq=WHOLE, at=TIME, event=TEXT, attempt_index=WHOLE, lease_epoch=WHOLE, actor=TEXT, reason=TEXT,
        **{"from": or_null(TEXT), "to": or_null(TEXT)}, details=MAP,
    ),
    "Because": shape(reason=TEXT, detail=TEXT, data={"type": "object"}),
    "Frames": shape(
        "closed_at closed_reason",
        frames=several(shape(id=TEXT, fields=MAP)), count=WHOLE, closed_at=TIME, closed_reason=TEXT,
    ),
    "Kind": shape(
        "lane priority fairness_key fairness_weight policy input_schema description",
        kind=TEXT, namespace=TEXT, lane=TEXT, priority=WHOLE, tags=MAP, required_capabilities=TEXTS, fairness_key=TEXT,
        fairness_weight=WHOLE, policy={"type": "object"}, input_schema={"type": "object"}, description=TEXT,
        published_at=TIME, published_by=TEXT, digest=TEXT,
    ),
    "Token": shape(
        token_id=TEXT, name=TEXT, role=TEXT, namespace=or_null(TEXT), expires_at=or_null(TIME), created_at=TIME
    ),
}  # fmt: skip

_E: Final = "/v1/executions/{id}"
_MOVED: Final = shape(**_CREATED)
_SIGNALLED: Final = one_of(
    Accepted=shape(signal_id=TEXT, effect=TEXT), Duplicate=shape(existing_signal_id=TEXT)
)

ANSWERS: Final[dict[str, Schema]] = {
    "GET /healthz": shape(status=TEXT),
    "GET /readyz": shape(status=TEXT),
    "GET /livez": shape(status=TEXT),
    "POST /v1/submit": ref("Submitted"),
    "POST /v1/submit/batch": shape(
        results=several({"anyOf": [ref("Submitted"), shape("field", **_FAULT, field=TEXT)]})
    ),
    "GET /v1/executions": shape(
        executions=several({"anyOf": [ref("Summary"), _ID]}), next_cursor=or_null(TEXT)
    ),
    "POST /v1/executions": one_of(Created=shape(**_CREATED), Duplicate=shape(execution_id=_ID)),
    f"GET {_E}": shape(
        "started_at completed_at flow_id",
        execution_id=_ID, namespace=TEXT, lane_id=TEXT, execution_kind=TEXT, priority=WHOLE,
        state_vector=ref("StateVector"), public_state=STATE, created_at=TEXT, started_at=TEXT, completed_at=TEXT,
        current_attempt_index=WHOLE, flow_id=or_null(TEXT), blocking_detail=TEXT,
    ),
    f"GET {_E}/state": STATE,
    f"GET {_E}/pending-waitpoints": several(ref("Waitpoint")),
    f"GET {_E}/waitpoints/{{waitpoint_id}}/token": shape(token=TEXT),
    f"POST {_E}/waitpoints/{{waitpoint_id}}/signal": _SIGNALLED,
    f"POST {_E}/waitpoints/{{waitpoint_id}}/link": shape(url=TEXT, expires_at=TIME),
    f"POST {_E}/signal": _SIGNALLED,
    f"POST {_E}/cancel": one_of(Cancelled=_MOVED),
    f"PUT {_E}/priority": one_of(Changed=shape(execution_id=_ID)),
    f"POST {_E}/replay": one_of(Replayed=shape(public_state=STATE)),
    f"POST {_E}/revoke-lease": one_of(
        Revoked=shape(lease_id=TEXT, lease_epoch=TEXT), AlreadySatisfied=shape(reason=TEXT)
    ),
    f"POST {_E}/resume": one_of(Resumed=shape(public_state=STATE)),
    f"PUT {_E}/tags": one_of(Updated=shape(count=WHOLE)),
    f"POST {_E}/pause": one_of("Paused"),
    f"POST {_E}/unpause": one_of("Unpaused"),
    "POST /v1/lanes/{lane}/pause": one_of("Paused"),
    "POST /v1/lanes/{lane}/unpause": one_of("Unpaused"),
    f"POST {_E}/reclaim": {
        "oneOf": [
            shape(status=one_of("granted"), **_GRANT, lane_id=TEXT),
            shape(status=one_of("not_reclaimable"), execution_id=_ID, detail=TEXT),
            shape(status=one_of("reclaim_cap_exceeded"), execution_id=_ID, reclaim_count=WHOLE),
        ]
    },
    "POST /v1/workers/{worker_id}/claim": shape(**_GRANT),
    "POST /v1/workers/{worker_id}/tasks": shape(tasks=several(ref("Task"))),
    "POST /v1/workers/{worker_id}/renew": shape(
        results=several(
            {
                "anyOf": [
                    shape(execution_id=TEXT, expires_at=TIME),
                    shape("field", execution_id=TEXT, **_FAULT, field=TEXT),
                ]
            }
        )
    ),
    "POST /v1/workers/{worker_id}/register": one_of("Registered", "Refreshed"),
    "POST /v1/workers/{worker_id}/heartbeat": one_of("NotRegistered", Refreshed=shape(next_expiry_ms=TIME)),
    "POST /v1/workers/{worker_id}/dead": one_of("Marked", "NotRegistered"),
    f"POST {_E}/complete": one_of(Completed=_MOVED),
    f"POST {_E}/fail": one_of("TerminalFailed", RetryScheduled=shape(delay_until=TIME, next_attempt_index=WHOLE)),
    f"POST {_E}/renew": one_of(Renewed=shape(expires_at=TIME)),
    f"POST {_E}/progress": one_of("Updated"),
    f"POST {_E}/delay": one_of(Delayed=_MOVED),
    f"POST {_E}/release": one_of("Released"),
    f"POST {_E}/wait-children": one_of(Moved=_MOVED),
    f"POST {_E}/suspend": one_of(
        Suspended=shape(**_SUSPENSION),
        AlreadySatisfied=shape(**_SUSPENSION, resume_signals=several(ref("Signal"))),
    ),
    f"POST {_E}/waitpoints": one_of(Created=_OPEN_WAITPOINT),
    f"DELETE {_E}/waitpoints/{{waitpoint_id}}": one_of(Closed=shape(already=YES_NO)),
    f"POST {_E}/grant": one_of(Granted=shape(execution_id=TEXT, lane_id=TEXT, expires_at=TIME)),
    f"POST {_E}/claim": one_of(Claimed=ref("Task")),
    f"GET {_E}/signals": shape(signals=several(shape(signal_id=TEXT, signal_name=TEXT, accepted_at=TIME))),
    "GET /v1/workers/{worker_id}/leases": page("executions", TEXT),
    f"POST {_E}/frames": one_of(
        Appended=several(shape("summary_version", entry_id=TEXT, frame_count=WHOLE, summary_version=WHOLE))
    ),
    f"POST {_E}/steps": one_of(
        "Stored",
        Existing=shape("result result_base64 encoding", result=ANY, result_base64=TEXT, encoding=TEXT)),
    f"GET {_E}/steps": page("steps", ref("NamedStep")),
    f"GET {_E}/steps/{{name}}": ref("NamedStep"),
    f"GET {_E}/detail": shape(
        _MAYBE,
        **_SUMMARY, state_vector=ref("StateVector"),
        lease=or_null(shape("lease_id lease_epoch", lease_id=TEXT, lease_epoch=WHOLE)),
        attempts=several(
            shape("attempt_id", attempt_index=WHOLE, attempt_id=TEXT, attempt_type=TEXT, attempt_state=TEXT)
        ),
        suspension=or_null(shape(suspension_id=TEXT, waitpoint_id=TEXT)), waitpoints=several(ref("Waitpoint")),
        dependencies=several(ANY), budgets=several(ANY), usage={"type": "object"},
        failure=or_null(shape(reason=TEXT, category=TEXT)), policy=ANY, because=several(ref("Because")),
    ),
    f"GET {_E}/history": page("events", ref("HistoryEvent")),
    f"GET {_E}/explain": shape(runnable=YES_NO, because=several(ref("Because")), public_state=STATE),
    f"GET {_E}/wait": shape(
        "result result_base64 failure",
        public_state=STATE, terminal=YES_NO, result=ANY, result_base64=TEXT,
        failure=shape(reason=TEXT, category=TEXT),
    ),
    f"GET {_E}/attempts/{{idx}}/stream": ref("Frames"),
    f"GET {_E}/attempts/{{idx}}/stream/tail": ref("Frames"),
    f"GET {_E}/attempts/{{idx}}/stream/summary": shape(document=ANY, version=WHOLE, last_updated_ms=TIME),
    "GET /v1/lanes": page(
        "lanes", shape(lane_id=TEXT, counts=COUNTS, oldest_waiting_age_ms=or_null(WHOLE), paused=YES_NO)
    ),
    "PUT /v1/kinds/{kind}": one_of("Published", "Unchanged"),
    "GET /v1/kinds/{kind}": ref("Kind"),
    "GET /v1/kinds": page("kinds", ref("Kind")),
    "DELETE /v1/kinds/{kind}": one_of("Deleted"),
    "GET /v1/workers": page(
        "workers",
        shape(
            worker_id=TEXT, worker_instance_id=TEXT, namespace=TEXT, lanes=TEXTS, capabilities=TEXTS,
            kinds=or_null(TEXTS), leases_held=WHOLE, last_heartbeat_at=TIME,
        ),
    ),
    "GET /v1/waitpoints": page(
        "waitpoints",
        shape("activated_at expires_at message details", **_WAITPOINT, reason=or_null(TEXT), age_ms=WHOLE)
    ),
    "GET /v1/stats": shape(
        counts=COUNTS, rates={"type": "object"}, backend=TEXT, version=TEXT, now=TIME, uptime_seconds=NUMBER
    ),
    "POST /v1/admin/tokens": {"allOf": [ref("Token"), shape(token=TEXT)]},
    "GET /v1/admin/tokens": page("tokens", ref("Token")),
    "DELETE /v1/admin/tokens/{token_id}": one_of("Deleted"),
    "POST /v1/admin/rotate-waitpoint-secret": shape(
        rotated=WHOLE, failed=several(ANY), in_progress=several(ANY), new_kid=TEXT
    ),
    "GET /openapi.json": {"type": "object"},
}  # fmt: skip

PLAIN: Final[dict[str, str]] = {
    f"GET {_E}/result": "application/octet-stream",
    f"GET {_E}/events": "text/event-stream",
    "GET /v1/feed": "text/event-stream",
    "POST /v1/wakeups": "text/event-stream",
    "GET /metrics": "text/plain",
    "GET /": "text/html",
    "GET /docs": "text/html",
    "GET /links/{signed}": "text/html",
    "POST /links/{signed}": "text/html",
}
"""Answers that are no JSON, and what they are instead."""

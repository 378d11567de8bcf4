"""Examples of the main routes, for the description of the interface."""

from __future__ import annotations

from typing import Any, Final

EXECUTION_ID: Final = "{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"
"""What the whole id of an execution looks like."""
_ID: Final = EXECUTION_ID
_LEASE: Final = "5d0c2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"
_ATTEMPT: Final = "9a0c2a52-5f0e-4c41-9a7d-2f1f6f1f9a11"
_WAITPOINT: Final = "0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"
_FENCE: Final = {"lease_id": _LEASE, "lease_epoch": 1, "attempt_id": _ATTEMPT}
_E: Final = "/v1/executions/{id}"
_NOW: Final = 1_760_000_000_000

BODY_EXAMPLES: Final[dict[str, Any]] = {
    "POST /v1/submit": {"kind": "resize", "input": {"image": "a.png"}, "lane": "default", "priority": 10},
    "POST /v1/submit/batch": {"items": [{"kind": "resize", "input": 1}, {"kind": "resize", "input": 2}]},
    "POST /v1/executions": {
        "execution_id": _ID, "namespace": "default", "lane_id": "default", "execution_kind": "resize",
        "input_payload": [123, 125], "priority": 0, "creator_identity": "", "partition_id": 7, "now": _NOW,
    },
    "POST /v1/workers/{worker_id}/tasks": {
        "worker_instance_id": "worker-1-a", "lanes": ["default"], "max_tasks": 4, "wait_ms": 0,
    },
    f"POST {_E}/complete": {"fence": _FENCE, "result": {"ok": True}},
    f"POST {_E}/fail": {"fence": _FENCE, "reason": "no such image", "category": "error"},
    f"POST {_E}/renew": {"fence": _FENCE, "lease_ttl_ms": 30000},
    f"POST {_E}/progress": {"fence": _FENCE, "pct": 50, "message": "half of it"},
    f"POST {_E}/frames": {"fence": _FENCE, "frames": [{"frame_type": "token", "payload": "Hel"}]},
    f"POST {_E}/steps": {"fence": _FENCE, "name": "fetch", "result": {"size": 12}},
    f"POST {_E}/suspend": {"fence": _FENCE, "signals": ["approved"], "timeout_ms": 3600000},
    f"POST {_E}/cancel": {"execution_id": _ID, "reason": "not needed", "now": _NOW},
    f"PUT {_E}/tags": {"tags": {"team": "images"}},
    f"PUT {_E}/priority": {"new_priority": 100},
    f"POST {_E}/waitpoints/{{waitpoint_id}}/signal": {"signal_name": "approved", "payload": {"by": "ada"}},
    f"POST {_E}/delay": {"fence": _FENCE, "delay_ms": 60000},
    f"POST {_E}/release": {"fence": _FENCE},
    f"POST {_E}/wait-children": {"fence": _FENCE},
    f"POST {_E}/waitpoints": {"fence": _FENCE, "waitpoint_key": "approval", "expires_in_ms": 3600000},
    f"POST {_E}/waitpoints/{{waitpoint_id}}/link": {"signal_name": "approved", "expires_in_ms": 86400000},
    f"POST {_E}/signal": {
        "execution_id": _ID, "waitpoint_id": _WAITPOINT, "signal_id": _ATTEMPT, "signal_name": "approved",
        "signal_category": "human", "source_type": "human", "source_identity": "ada", "payload": [123, 125],
        "target_scope": "waitpoint", "waitpoint_token": "k1:<64 hex digits>", "now": _NOW,
    },
    f"POST {_E}/resume": {"resume_delay_ms": 0},
    f"POST {_E}/pause": {"reason": "wrong input"},
    f"POST {_E}/unpause": {"reason": "input is right"},
    f"POST {_E}/grant": {"worker_id": "worker-1", "worker_instance_id": "worker-1-a", "grant_ttl_ms": 5000},
    f"POST {_E}/claim": {
        "by": "grant", "worker_id": "worker-1", "worker_instance_id": "worker-1-a", "lease_id": _LEASE,
        "attempt_id": _ATTEMPT, "lease_ttl_ms": 30000,
    },
    f"POST {_E}/reclaim": {
        "worker_id": "worker-1", "worker_instance_id": "worker-1-a", "lane_id": "default", "grant_ttl_ms": 5000,
    },
    "POST /v1/lanes/{lane}/pause": {"reason": "maintenance"},
    "POST /v1/lanes/{lane}/unpause": {"reason": "maintenance is over"},
    "POST /v1/workers/{worker_id}/claim": {
        "lane_id": "default", "worker_instance_id": "worker-1-a", "grant_ttl_ms": 5000,
    },
    "POST /v1/workers/{worker_id}/renew": {
        "fences": [{"execution_id": _ID, **_FENCE}], "lease_ttl_ms": 30000,
    },
    "POST /v1/workers/{worker_id}/register": {
        "worker_instance_id": "worker-1-a", "lanes": ["default"], "capabilities": ["gpu"], "liveness_ttl_ms": 30000,
        "kinds": ["resize"],
    },
    "POST /v1/workers/{worker_id}/heartbeat": {"worker_instance_id": "worker-1-a"},
    "POST /v1/workers/{worker_id}/dead": {"worker_instance_id": "worker-1-a", "reason": "its machine is gone"},
    "PUT /v1/kinds/{kind}": {
        "lane": "images", "policy": {"retry_policy": {"max_retries": 3}}, "description": "Resize an image.",
        "input_schema": {"type": "object", "properties": {"image": {"type": "string"}}, "required": ["image"]},
    },
    "POST /links/{signed}": {"signal": "approve", "comment": "as agreed", "name": "Ada"},
    "POST /v1/wakeups": {"topics": ["lane:default", "feed"]},
    "POST /v1/admin/rotate-waitpoint-secret": {"new_kid": "k2", "new_secret_hex": "<64 hex digits>"},
    "POST /v1/admin/tokens": {"name": "ci", "role": "submitter", "namespace": "default"},
}  # fmt: skip

ANSWER_EXAMPLES: Final[dict[str, dict[int, Any]]] = {
    "POST /v1/submit": {
        201: {"execution_id": _ID, "public_state": "waiting", "duplicate": False},
        200: {"execution_id": _ID, "public_state": "active", "duplicate": True},
    },
    "GET /v1/executions": {
        200: {
            "executions": [
                {
                    "execution_id": _ID, "namespace": "default", "lane_id": "default", "execution_kind": "resize",
                    "public_state": "waiting", "priority": 10, "created_at": _NOW, "attempt_index": 0, "tags": {},
                    "blocking_reason": "waiting_for_worker",
                }
            ],
            "next_cursor": None,
        }
    },
    f"GET {_E}/state": {200: "waiting"},
    f"GET {_E}/explain": {
        200: {
            "runnable": False, "public_state": "waiting",
            "because": [
                {
                    "reason": "waiting_for_capable_worker", "detail": "needs gpu; 2 workers live, none has it",
                    "data": {"required": ["gpu"], "missing": ["gpu"], "lane": "default", "live_workers": 2},
                }
            ],
        }
    },
    f"GET {_E}/wait": {200: {"public_state": "completed", "terminal": True, "result": {"ok": True}}},
    f"POST {_E}/complete": {200: {"Completed": {"execution_id": _ID, "public_state": "completed"}}},
    f"POST {_E}/fail": {200: {"RetryScheduled": {"delay_until": _NOW, "next_attempt_index": 1}}},
    f"POST {_E}/suspend": {
        200: {
            "Suspended": {
                "suspension_id": _LEASE, "waitpoint_id": _WAITPOINT, "waitpoint_key": "wpk:1",
                "waitpoint_token": "k1:…", "additional_waitpoints": [],
            }
        }
    },
}  # fmt: skip

"""Errors over HTTP: one body for all of them, and one table from codes to statuses."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.errors import (
    Corruption,
    ExecutionNotActive,
    FlowFabricError,
    Infrastructure,
    LimitExceeded,
    ResourceExhausted,
    StoreBusy,
    StoreFull,
    Unreachable,
)
from flowfabric.wire.answers import View

VALIDATION: Final = frozenset(
    {
        "invalid_input",
        "capability_mismatch",
        "invalid_capabilities",
        "invalid_policy_json",
        "payload_too_large",
        "signal_limit_exceeded",
        "invalid_token",
        "missing_token",
        "token_expired",
        "waitpoint_not_token_bound",
        "retention_limit_exceeded",
        "invalid_lease_for_suspend",
        "invalid_waitpoint_for_execution",
        "invalid_blocking_reason",
        "invalid_kid",
        "invalid_secret_hex",
        "invalid_grace_ms",
        "invalid_tag_key",
        "fence_required",
        "partial_fence_triple",
        "patch_depth_exceeded",
        "step_limit_exceeded",
        "additional_waitpoint_binding_malformed",
        "use_pending_with_extras_unsupported",
        "unauthorized",
    }
)
NOT_FOUND: Final = {
    "execution_not_found": "execution",
    "kind_not_found": "kind",
    "flow_not_found": "flow",
    "budget_not_found": "budget",
    "quota_policy_not_found": "quota_policy",
    "not_found": "resource",
}
CONTENTION: Final = frozenset(
    {
        "use_claim_resumed_execution",
        "not_a_resumed_execution",
        "execution_not_leaseable",
        "lease_conflict",
        "invalid_claim_grant",
        "claim_grant_expired",
        "waitpoint_not_found",
        "waitpoint_pending_use_buffer_script",
        "execution_not_active",
        "execution_not_eligible",
        "execution_not_in_eligible_set",
        "execution_not_reclaimable",
        "no_active_lease",
    }
)
CONFLICT: Final = frozenset(
    {"waitpoint_already_exists", "rotation_conflict", "active_attempt_exists", "execution_id_taken"}
)
STATE_KINDS: Final = {
    "execution_not_terminal": "execution_not_terminal",
    "max_replays_exhausted": "max_replays_exhausted",
    "lease_expired": "already_satisfied",
    "lease_revoked": "already_satisfied",
}
"""What the older routes call a refusal by state; every other one is a `state_conflict`."""
UNAVAILABLE: Final = frozenset({"hmac_secret_not_initialized", "store_closed"})
SHORT_NAMES: Final = {
    "execution_kind": "kind",
    "lane_id": "lane",
    "creator_identity": "creator",
    "input_payload": "input",
    "execution_deadline_at": "deadline_at",
    "step_name": "name",
    "key_suffix": "idempotency_suffix",
}
"""How bodies of ours call what the engine calls otherwise."""
RETRY_AFTER: Final = "1"
BAD_SHAPE: Final = "invalid JSON: Unprocessable Entity"


class ErrorView(View, frozen=True, kw_only=True):
    """The body of every 4xx and 5xx."""

    error: str
    code: str
    kind: str
    retryable: bool
    request_id: str
    field: str = ""
    details: Any = None
    limit_bytes: int = 0
    route: str = ""
    cause: str = ""


class Refusal(View, frozen=True, kw_only=True):
    """Why one item of a batch was refused."""

    error: str
    kind: str
    code: str
    retryable: bool
    details: tuple[str, ...] = ()
    field: str = ""


class HttpError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        error: str,
        code: str,
        *,
        kind: str = "",
        retryable: bool = False,
        field: str = "",
        details: Any = None,
        headers: tuple[tuple[str, str], ...] = (),
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.code = code
        self.kind = kind or code
        self.retryable = retryable
        self.field = field
        self.details = details
        self.headers = headers
        self.extra = extra or {}

    def body(self, request_id: str) -> ErrorView:
        """Return the JSON body."""
        return ErrorView(
            error=self.error,
            code=self.code,
            kind=self.kind,
            retryable=self.retryable,
            request_id=request_id,
            field=self.field,
            details=self.details or None,
            **self.extra,
        )

    def all_headers(self) -> tuple[tuple[str, str], ...]:
        """Return its headers, with the time to wait where waiting helps."""
        waits = self.status in {429, 503} and not any(name == "retry-after" for name, _ in self.headers)
        return (*self.headers, ("retry-after", RETRY_AFTER)) if waits else self.headers


def bad_request(error: str, *, field: str = "", code: str = "invalid_input") -> HttpError:
    """Refuse a request for what it says."""
    return HttpError(400, error, code, kind=code, field=field)


def unprocessable(field: str, text: str) -> HttpError:
    """Refuse a field of a body that has the right type and the wrong form."""
    return HttpError(422, f"{BAD_SHAPE}: {field}: {text}", "invalid_input", kind="invalid_input", field=field)


def from_engine(error: FlowFabricError, *, classic: bool, form: Any = None) -> HttpError:
    """Turn an error of the engine into an answer, in the words of the older routes or of ours."""
    status, kind, retryable = _place(error, classic)
    field = sent_as(error.field, form)
    text = f"{field}: {error.text}" if field else error.text
    if classic:
        text = _classic_text(error)
    return HttpError(
        status,
        text,
        error.code,
        kind=kind,
        retryable=retryable,
        field=field,
        details=list(error.details) or None,
    )


def sent_as(field: str, form: Any) -> str:
    """Name a field as the sender of this body calls it."""
    known: tuple[str, ...] = getattr(form, "__struct_fields__", ())
    other = SHORT_NAMES.get(field, "")
    return other if field not in known and other in known else field


def refusal_of(error: HttpError | FlowFabricError, form: Any = None) -> Refusal:
    """Describe why one item of a batch was refused while the others were not."""
    refused = from_engine(error, classic=False, form=form) if isinstance(error, FlowFabricError) else error
    return Refusal.of(refused, details=tuple(refused.details or ()))


def _place(error: FlowFabricError, classic: bool) -> tuple[int, str, bool]:
    code = error.code
    if code in NOT_FOUND:
        return 404, "" if classic else code, False
    if code in VALIDATION:
        status = 413 if code == "payload_too_large" and not classic else 400
        return status, "" if classic else code, False
    if isinstance(error, ExecutionNotActive) and error.details and error.details[0] != "none":
        return 409, "terminal" if classic else code, False
    if code in CONTENTION:
        return 409, "contention" if classic else code, classic or error.retryable
    if code in CONFLICT:
        return 409, code, False
    if isinstance(error, ResourceExhausted):
        return 429, code, True
    if isinstance(error, Infrastructure):
        return _infrastructure(error)
    status = 400 if isinstance(error, LimitExceeded) and code not in STATE_KINDS else 409
    if code == "max_retries_exhausted":
        status = 409
    return status, STATE_KINDS.get(code, "state_conflict") if classic else code, False


def _infrastructure(error: Infrastructure) -> tuple[int, str, bool]:
    if isinstance(error, StoreBusy | StoreFull) or error.code in UNAVAILABLE:
        return 503, error.code, error.retryable
    if isinstance(error, Unreachable):  # what was asked may have been done
        return 504, error.code, error.retryable
    if isinstance(error, Corruption):
        return 500, "corruption", False
    return 500, error.code, error.retryable


def _classic_text(error: FlowFabricError) -> str:
    if error.code in NOT_FOUND:
        return f"not found: {NOT_FOUND[error.code]}"
    if error.code in CONTENTION:
        return f"contention: {error.code}: {error.text}"
    where = f"{error.field}: " if error.field else ""
    detail = ",".join(error.details)
    return f"{error.code}: {detail}: {where}{error.text}" if detail else f"{error.code}: {where}{error.text}"

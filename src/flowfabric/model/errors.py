"""Everything that can go wrong, as one tree.

The families say what the caller should do; the code says what happened::

    FlowFabricError
    ├── RetryLater        the state was not right this time: back off or look again, then repeat
    ├── OwnershipLost     you no longer hold this attempt: stop, change nothing more
    ├── InvalidInput      the request itself is wrong: mend the named field
    ├── NotFound          there is no such thing
    ├── Conflict          it is in a state that refuses this: read it, then decide
    ├── LimitExceeded     a limit was reached: the message names it
    ├── Unauthorized      the credential is missing, wrong or too old
    └── Infrastructure    the store could not do it: see `retryable`

Codes travel between languages and processes as text; `from_code` is the one place that turns them back into classes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final


class Severity(StrEnum):
    """How a caller treats an error."""

    TERMINAL = "terminal"
    RETRYABLE = "retryable"
    COOPERATIVE = "cooperative"
    INFORMATIONAL = "informational"
    BUG = "bug"


class FlowFabricError(Exception):
    """Base of every error that FlowFabric raises on purpose."""

    code: ClassVar[str] = "error"
    """What happened, for programs."""
    severity: ClassVar[Severity] = Severity.TERMINAL
    """How to treat it: see `retryable`."""
    message: ClassVar[str] = "something went wrong"
    """What happened, for people, when nothing more is known."""

    def __init__(self, text: str = "", *, field: str = "", details: tuple[str, ...] = ()) -> None:
        self.text = text or self.message
        """What happened, and what to do."""
        self.field = field
        """Which field or argument is wrong; empty when it is none."""
        self.details = details
        """What a program may want to know besides."""
        super().__init__(f"{field}: {self.text}" if field else self.text)

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without being changed."""
        return self.severity is Severity.RETRYABLE

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[str, str, str, tuple[str, ...]]:
        return self.code, self.text, self.field, self.details

    def __reduce__(self) -> tuple[object, ...]:
        return from_code, (self.code, self.text, self.field, self.details)


class RetryLater(FlowFabricError):
    """The state was not right this time."""

    severity = Severity.RETRYABLE


class OwnershipLost(FlowFabricError):
    """The caller no longer holds the attempt."""


class InvalidInput(FlowFabricError):
    """The request is wrong in itself."""

    code = "invalid_input"
    message = "the input is not valid"


class NotFound(FlowFabricError):
    """There is no such thing."""

    code = "not_found"
    message = "there is no such thing"


class Conflict(FlowFabricError):
    """The thing is in a state that refuses this."""


class LimitExceeded(FlowFabricError):
    """A limit was reached."""


class Unauthorized(FlowFabricError):
    """The credential does not open this door."""

    code = "unauthorized"
    message = "the credential does not open this door"


class Infrastructure(FlowFabricError):
    """The store could not do it."""


class ExecutionNotActive(Conflict):
    """A lease-holder operation met an execution that nobody runs; details: outcome, epoch, phase, attempt id."""

    code = "execution_not_active"
    message = "the execution is not active"


class StoreBusy(Infrastructure):
    """Another process held the database for too long."""

    code = "store_busy"
    severity = Severity.RETRYABLE
    message = "another process holds the database; try again"


class StoreClosed(Infrastructure):
    """The store was closed."""

    code = "store_closed"
    message = "the store is closed; open it again"


class StoreUnusable(Infrastructure):
    """The database cannot be used as it is."""

    code = "store_unusable"
    message = "the database cannot be used"


class StoreFull(Infrastructure):
    """No room is left."""

    code = "store_full"
    severity = Severity.RETRYABLE
    message = "no room is left on the device; free some and try again"


class SchemaTooNew(StoreUnusable):
    """A newer FlowFabric wrote this data."""

    code = "schema_too_new"
    message = "a newer FlowFabric wrote this data; upgrade before opening it"


class PartitionMismatch(StoreUnusable):
    """The configured partition counts differ from the recorded ones."""

    code = "partition_mismatch"
    message = "partition counts are fixed for the life of a deployment"


class Unreachable(Infrastructure):
    """The server could not be asked, or its answer was lost: what was asked may have been done, or not."""

    code = "unreachable"
    severity = Severity.RETRYABLE
    message = "the server did not answer; what was asked may have been done"


class Unreplicated(Unreachable):
    """It was done, but fewer replicas have confirmed it than were asked for: it may be lost with its server."""

    code = "unreplicated"
    message = "too few replicas confirmed it in time; it may be lost with its server: ask again"


class NotOffered(InvalidInput):
    """The connection in use does not carry this operation; the message says what to do instead."""

    code = "not_offered"
    message = "this connection does not carry the operation"


class ResourceExhausted(LimitExceeded):
    """A local ceiling was reached."""

    code = "resource_exhausted"
    severity = Severity.RETRYABLE
    message = "too many at once; try again"


class Corruption(Infrastructure):
    """What is stored cannot be read."""

    code = "corruption"
    message = "what is stored cannot be read"


class InternalError(Infrastructure):
    """A defect of FlowFabric itself."""

    code = "internal_error"
    severity = Severity.BUG
    message = "a defect of FlowFabric itself; nothing was written"


_T, _R, _I = Severity.TERMINAL, Severity.RETRYABLE, Severity.INFORMATIONAL

# One line per code: family, severity, and the sentence that says what to do.
_TABLE: Final[tuple[tuple[str, type[FlowFabricError], Severity, str], ...]] = (
    ("execution_not_found", NotFound, _T, "no execution has this id"),
    ("execution_id_taken", Conflict, _T, "the id is in use; mint a new UUID and submit again"),
    ("stale_lease", OwnershipLost, _T, "the lease is no longer yours; stop working on it"),
    ("lease_expired", OwnershipLost, _T, "the lease has expired; stop working on it"),
    ("lease_revoked", OwnershipLost, _T, "an operator revoked the lease; stop working on it"),
    ("no_active_lease", Conflict, _I, "nobody holds a lease on it"),
    ("fence_required", InvalidInput, _T, "send the fence: lease_id, lease_epoch and attempt_id"),
    ("partial_fence_triple", InvalidInput, _T, "send all of lease_id, lease_epoch and attempt_id, or none"),
    ("active_attempt_exists", Conflict, Severity.BUG, "an attempt is already running"),
    ("use_claim_resumed_execution", RetryLater, _R, "its attempt was interrupted: claim it as resumed"),
    ("not_a_resumed_execution", RetryLater, _R, "it has no interrupted attempt: claim it as new"),
    ("execution_not_leaseable", RetryLater, _R, "it cannot be leased in its present state"),
    ("lease_conflict", RetryLater, _R, "somebody else holds a lease on it"),
    ("invalid_claim_grant", RetryLater, _R, "there is no such grant for this worker; ask for a new one"),
    ("claim_grant_expired", RetryLater, _R, "the grant is too old; ask for a new one"),
    ("execution_not_eligible", Conflict, _I, "its present state does not allow this"),
    ("execution_not_in_eligible_set", Conflict, _I, "another scheduler was faster"),
    ("grant_already_exists", Conflict, _I, "a live grant exists already"),
    ("capability_mismatch", RetryLater, _R, "the worker lacks capabilities that the execution requires"),
    ("invalid_capabilities", InvalidInput, _T, "the capability list is malformed or too large"),
    ("invalid_policy_json", InvalidInput, _T, "the policy is not a JSON object of the documented shape"),
    ("invalid_tag_key", InvalidInput, _T, "tag keys look like team or team.name, in lower case"),
    ("invalid_blocking_reason", InvalidInput, _T, "this reason cannot block an execution"),
    ("execution_not_reclaimable", Conflict, _I, "its lease has neither expired nor been revoked"),
    ("max_retries_exhausted", LimitExceeded, _T, "it was reclaimed too often and has now failed"),
    ("execution_not_terminal", Conflict, _T, "only ended executions can be replayed"),
    ("max_replays_exhausted", LimitExceeded, _T, "it was replayed as often as its policy allows"),
    ("already_suspended", Conflict, _I, "it is suspended already"),
    ("execution_not_suspended", Conflict, _I, "it is not suspended"),
    ("invalid_lease_for_suspend", InvalidInput, _T, "the attempt index is not the current one"),
    ("waitpoint_not_found", NotFound, _R, "no such waitpoint (yet)"),
    ("waitpoint_not_pending", Conflict, _I, "the waitpoint is not pending any more"),
    ("pending_waitpoint_expired", Conflict, _I, "the waitpoint expired before it was used"),
    (
        "invalid_waitpoint_for_execution",
        InvalidInput,
        _T,
        "the waitpoint belongs to another execution or attempt",
    ),
    ("waitpoint_already_exists", Conflict, _I, "an open waitpoint has this id already"),
    ("waitpoint_not_open", Conflict, _I, "the waitpoint is not open"),
    ("waitpoint_closed", Conflict, _I, "the waitpoint is closed: the signal came too late"),
    ("waitpoint_not_token_bound", InvalidInput, _T, "the waitpoint has no token"),
    ("waitpoint_pending_use_buffer_script", RetryLater, _R, "the waitpoint is pending: buffer the signal"),
    ("target_not_signalable", Conflict, _T, "nothing waits for this signal any more"),
    ("signal_limit_exceeded", LimitExceeded, _T, "the execution has taken as many signals as it may"),
    ("invalid_token", Unauthorized, _T, "the waitpoint token is wrong"),
    ("missing_token", Unauthorized, _T, "send the waitpoint token"),
    ("token_expired", Unauthorized, _T, "the key that signed this token has been rotated out"),
    ("hmac_secret_not_initialized", Infrastructure, _T, "no waitpoint secret is installed; seed one"),
    ("invalid_secret", Infrastructure, _T, "the stored waitpoint secret is unusable; rotate it"),
    ("invalid_keys_missing_hmac", Infrastructure, Severity.BUG, "no key store was addressed"),
    (
        "additional_waitpoint_binding_malformed",
        InvalidInput,
        _T,
        "an additional waitpoint lacks its id or key",
    ),
    (
        "use_pending_with_extras_unsupported",
        InvalidInput,
        _T,
        "a pending waitpoint cannot be combined with others",
    ),
    ("invalid_kid", InvalidInput, _T, "a key id is non-empty text without a colon"),
    ("invalid_secret_hex", InvalidInput, _T, "a secret is a non-empty, even number of hex digits"),
    ("invalid_grace_ms", InvalidInput, _T, "the grace is an integer from 0 to 2^53 - 1"),
    ("rotation_conflict", Conflict, _T, "this key id is known with another secret; choose a new one"),
    ("stream_closed", Conflict, _T, "the stream is closed"),
    ("stale_owner_cannot_append", OwnershipLost, _T, "only the lease holder may append"),
    ("retention_limit_exceeded", LimitExceeded, _T, "the frame is larger than 65536 bytes"),
    ("payload_too_large", LimitExceeded, _T, "the payload is too large"),
    ("step_limit_exceeded", LimitExceeded, _T, "the execution has stored as many steps as it may"),
    ("resume_condition_not_met", Conflict, _T, "the condition does not allow an operator to resume it"),
    ("kind_not_found", NotFound, _T, "no worker has published this kind"),
    ("flow_not_found", NotFound, _T, "no flow has this id"),
    ("budget_not_found", NotFound, _T, "no budget has this id"),
    ("quota_policy_not_found", NotFound, _T, "no quota policy has this id"),
    ("patch_depth_exceeded", InvalidInput, _T, "the patch is nested deeper than 17 objects"),
)


def _declare(
    code: str, family: type[FlowFabricError], severity: Severity, message: str
) -> type[FlowFabricError]:
    name = "".join(part.capitalize() for part in code.split("_"))
    return type(name, (family,), {"code": code, "severity": severity, "message": message, "__doc__": message})


BY_CODE: Final[dict[str, type[FlowFabricError]]] = {row[0]: _declare(*row) for row in _TABLE} | {
    kind.code: kind
    for kind in (
        InvalidInput,
        NotFound,
        Unauthorized,
        ExecutionNotActive,
        StoreBusy,
        StoreClosed,
        StoreUnusable,
        StoreFull,
        SchemaTooNew,
        PartitionMismatch,
        Unreachable,
        Unreplicated,
        NotOffered,
        ResourceExhausted,
        Corruption,
        InternalError,
    )
}


def from_code(code: str, text: str = "", field: str = "", details: tuple[str, ...] = ()) -> FlowFabricError:
    """Build the error that a code names."""
    return BY_CODE[code](text, field=field, details=details)


def refuse(code: str, *details: str, text: str = "", field: str = "") -> FlowFabricError:
    """Name the error of a code, with its details, for a step to raise."""
    return from_code(code, text, field, details)


def invalid(field: str, text: str) -> InvalidInput:
    """Build the refusal of one field: what is wrong, and what would be right."""
    return InvalidInput(text, field=field)

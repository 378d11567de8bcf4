"""Executions as they lie in the server: `[arrival number, positions, hot fields, rare fields, fixed fields]`.

Most operations need the hot fields alone. Those that never change are packed once, and those that are seldom set take
one byte until then: trailing defaults are left out. Positions are those of the newest lines of history, as text; when
there are `TOLD` of them they move to a list (`keys.history`). Lua has the same places (generated.py). The id is that of
the key, and stands empty in the record.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

import msgspec

from flowfabric.model.records import Execution
from flowfabric.storage.kinds import check_version, unpack

HOT: Final = (
    "version", "execution_id", "namespace", "lane_id", "execution_kind", "priority", "created_at",
    "last_transition_at", "last_mutation_at", "flow_id", "required_capabilities", "tags", "payload_encoding",
    "result_encoding", "retention_ms", "lifecycle_phase", "ownership_state", "eligibility_state", "blocking_reason",
    "terminal_outcome", "attempt_state", "public_state", "total_attempt_count", "step_count", "event_count",
    "current_attempt_id", "claim_type", "claim_id", "has_stream", "current_lease_id", "current_lease_epoch",
    "current_worker_id", "current_worker_instance_id", "lease_acquired_at", "lease_expires_at", "lease_last_renewed_at",
    "lease_renewal_deadline", "grant", "started_at", "completed_at", "execution_deadline_at", "attempt_deadline_at",
    "current_suspension_id", "rest", "attempt",
)  # fmt: skip
"""What claims, renewals and completions read and write.

Fields that come later belong to the rare ones, unless the format is raised. `rest` is no field of an execution: 0 when
it has no policy and no rare field is set, 1 when it has a policy, else 2.
"""
FIXED: Final = ("policy", "partition", "creator_identity", "fairness_key", "budget_ids", "quota_ids")
"""What never changes."""
RARE: Final = tuple(name for name in Execution.__struct_fields__ if name not in {*HOT, *FIXED})
TAIL: Final = "tail"
"""In Lua, the first place: the packed rest, until a field of it is asked for."""
TOLD: Final = 8
SAME: Final = "="
"""Stored as `current_attempt_id` when it is that of the last attempt, which stands in the same record."""


def _part(name: str, names: tuple[str, ...]) -> type[msgspec.Struct]:
    types: dict[str, tuple[Any, ...]] = {
        field.name: (field.type,) if field.required else (field.type, field.default)
        for field in msgspec.structs.fields(Execution)
    }
    types |= {"rest": (int, 0), FIXED[0]: types[FIXED[0]][:1]}
    return msgspec.defstruct(name, [(each, *types[each]) for each in names], array_like=True, gc=False)


_Hot: Final = _part("Hot", HOT)
_Rare: Final = _part("Rare", RARE)
_Fixed: Final = _part("Fixed", FIXED)
_HOT: Final = msgspec.msgpack.Decoder(_Hot)
_STORED: Final = msgspec.msgpack.Decoder(tuple[int, str, _Hot, _Rare, _Fixed])  # type: ignore[valid-type]
_NAMES: Final = (*HOT, *RARE, *FIXED)
_in_order: Final = itemgetter(*(_NAMES.index(name) for name in Execution.__struct_fields__))


def _whole(execution_id: str, hot: Any) -> Any:
    check_version("execution", hot.version)
    hot.execution_id = execution_id
    if hot.current_attempt_id == SAME:
        hot.current_attempt_id = hot.attempt.attempt_id
    return hot


def arrived(execution_id: str, data: bytes) -> tuple[int, Execution]:
    """Unpack a stored execution with the number of its arrival."""
    arrival, _, hot, *parts = unpack("execution", _STORED, data)
    values = [
        value for part in (_whole(execution_id, hot), *parts) for value in msgspec.structs.astuple(part)
    ]
    return arrival, Execution(*_in_order(values))


def newest(data: bytes) -> tuple[int, list[int]]:
    """Read where the newest lines of its history stand in the feed, and how many stand in the list before them."""
    _, positions, hot, *_ = unpack("execution", _STORED, data)
    found = [int(position) for position in positions.split()]
    return hot.event_count - len(found), found


def leased(execution_id: str, data: bytes) -> Any:
    """Unpack the hot fields alone, in the form of an execution: all that a task is made of."""
    return _whole(execution_id, unpack("execution", _HOT, data))

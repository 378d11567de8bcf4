"""Executions as they lie in the server: `[arrival number, length of the head, positions, hot fields, rare, fixed]`.

Most operations need the hot fields alone. Those of the head hardly ever change, and are copied as they are packed.
Those that never change are packed once, and those that are seldom set take one byte until then: trailing defaults are
left out. Positions are those of the newest lines of history, as text; when
there are `TOLD` of them they move to a list (`keys.history`). Lua has the same places (generated.py). The id is that of
the key, and stands empty in the record. The fields of the last attempt follow the hot ones in the same array, if there
is one, and empty lists are null: Lua takes plain values apart much faster than lists.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

import msgspec

from flowfabric.model.records import Attempt, Execution
from flowfabric.storage.kinds import check_version, unpack

HEAD: Final = (
    "version",
    "execution_id",
    "namespace",
    "lane_id",
    "execution_kind",
    "priority",
    "created_at",
    "flow_id",
    "required_capabilities",
    "tags",
    "payload_encoding",
    "retention_ms",
)
"""The first of the hot fields. No fast path changes one of them: they stay packed as they are."""
HOT: Final = (
    *HEAD,
    "last_transition_at",
    "last_mutation_at",
    "result_encoding",
    "lifecycle_phase",
    "ownership_state",
    "eligibility_state",
    "blocking_reason",
    "terminal_outcome",
    "attempt_state",
    "public_state",
    "total_attempt_count",
    "step_count",
    "event_count",
    "current_attempt_id",
    "claim_type",
    "claim_id",
    "has_stream",
    "current_lease_id",
    "current_lease_epoch",
    "current_worker_id",
    "current_worker_instance_id",
    "lease_acquired_at",
    "lease_expires_at",
    "lease_last_renewed_at",
    "lease_renewal_deadline",
    "grant",
    "started_at",
    "completed_at",
    "execution_deadline_at",
    "attempt_deadline_at",
    "current_suspension_id",
    "rest",
    "attempt",
)
"""What claims, renewals and completions read and write.

Fields that come later belong to the rare ones, unless the format is raised. `rest` is no field of an execution: 0 when
it has no policy and no rare field is set, 1 when it has a policy, else 2.
"""
FIXED: Final = ("policy", "partition", "creator_identity", "fairness_key", "budget_ids", "quota_ids")
"""What never changes."""
RARE: Final = tuple(name for name in Execution.__struct_fields__ if name not in {*HOT, *FIXED})
LISTS: Final = ("required_capabilities", "tags", "grant")
"""Hot fields that are lists, and mostly empty."""
PACKED: Final = ("tail", "head")
"""In Lua, the first places: the packed rest, until a field of it is asked for, and the packed head."""
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


def _hot() -> type[msgspec.Struct]:
    """Return hot fields and those of an attempt, as they stand in one array; what is made of them follows."""
    types = {field.name: field.type for field in msgspec.structs.fields(Execution)} | {"rest": int}
    hot = [(name, types[name] | None if name in LISTS else types[name]) for name in HOT[:-1]]
    last = [(f"last_{field.name}", field.type, field.default) for field in msgspec.structs.fields(Attempt)]
    made = [("attempt", Attempt | None, None)]
    return msgspec.defstruct("Hot", [*hot, *last, *made], array_like=True, gc=False)


_Hot: Final = _hot()
_AHEAD: Final = len(HOT) - 1
_Rare: Final = _part("Rare", RARE)
_Fixed: Final = _part("Fixed", FIXED)
_HOT: Final = msgspec.msgpack.Decoder(_Hot)
_STORED: Final = msgspec.msgpack.Decoder(tuple[int, int, str, _Hot, _Rare, _Fixed])  # type: ignore[valid-type]
_NAMES: Final = (*HOT, *RARE, *FIXED)
_in_order: Final = itemgetter(*(_NAMES.index(name) for name in Execution.__struct_fields__))


def _whole(execution_id: str, hot: Any) -> Any:
    check_version("execution", hot.version)
    hot.execution_id = execution_id
    hot.attempt = Attempt(*msgspec.structs.astuple(hot)[_AHEAD:-1])
    if hot.current_attempt_id == SAME:
        hot.current_attempt_id = hot.last_attempt_id
    for name in LISTS:
        if getattr(hot, name) is None:
            setattr(hot, name, ())
    return hot


def arrived(execution_id: str, data: bytes) -> tuple[int, Execution]:
    """Unpack a stored execution with the number of its arrival."""
    arrival, _, _, hot, *parts = unpack("execution", _STORED, data)
    whole = msgspec.structs.astuple(_whole(execution_id, hot))
    values = [*whole[:_AHEAD], whole[-1]]
    for part in parts:
        values += msgspec.structs.astuple(part)
    return arrival, Execution(*_in_order(values))


_encode: Final = msgspec.msgpack.Encoder().encode
_DEFAULTS: Final = {field.name: field.default for field in msgspec.structs.fields(Execution)}


def stored(run: Execution) -> bytes:
    """Pack an execution as it is stored, without the numbers that Lua assigns and without its fixed fields."""
    attempt = run.attempt
    values: dict[str, Any] = {name: getattr(run, name) for name in HOT[:-2]}
    values |= {"execution_id": "", "rest": 0}
    for name in LISTS:
        values[name] = values[name] or None
    last: tuple[Any, ...] = ()
    if attempt.index >= 0:
        last = msgspec.structs.astuple(attempt)
        if run.current_attempt_id == attempt.attempt_id:
            values["current_attempt_id"] = SAME
    head = _encode([values[name] for name in HEAD])[1:]
    hot = [*(values[name] for name in HOT[len(HEAD) : -1]), *last]
    rare = [getattr(run, name) for name in RARE]
    while rare and rare[-1] == _DEFAULTS[RARE[len(rare) - 1]]:
        rare.pop()
    return b"".join(
        (
            b"\x96\xcf",
            bytes(8),
            b"\xce",
            len(head).to_bytes(4, "big"),
            b"\xd9\x00",
            b"\xdc",
            (len(HEAD) + len(hot)).to_bytes(2, "big"),
            head,
            _encode(hot)[3:],
            _encode(rare),
        )
    )


def fixed(run: Execution, policy: bytes) -> bytes:
    """Pack the fields that never change; an execution that was created without a policy has none here either."""
    return _encode([run.policy if policy else (), *(getattr(run, name) for name in FIXED[1:])])


def newest(data: bytes) -> tuple[int, list[int]]:
    """Read where the newest lines of its history stand in the feed, and how many stand in the list before them."""
    _, _, positions, hot, *_ = unpack("execution", _STORED, data)
    found = [int(position) for position in positions.split()]
    return hot.event_count - len(found), found


def leased(execution_id: str, data: bytes) -> Any:
    """Unpack the hot fields alone, in the form of an execution: all that a task is made of."""
    return _whole(execution_id, unpack("execution", _HOT, data))

"""Lua tables made from the Python ones: places of fields, transition rows, limits. Nothing of this is typed twice."""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any, Final

import msgspec

from flowfabric.model import limits, policy, presence, records, transitions
from flowfabric.model.command import Command, Fence, HolderCommand
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Complete, Fail
from flowfabric.model.operations.lease import Renew
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.model.operations.timer import Purge
from flowfabric.model.policy import Policy
from flowfabric.model.state import FINAL_LIVES, Eligibility, Outcome, Phase, Public, public_state
from flowfabric.model.transitions import ANY_ELIGIBILITY, ANY_OWNER, NAMED, Transition
from flowfabric.storage.valkey.codec import BYTES, FORMS
from flowfabric.storage.valkey.executions import FIXED, HOT, PACKED, RARE, TOLD
from flowfabric.storage.valkey.sight import Sight

_COMMANDS: Final[tuple[type[Command[Any]], ...]] = (
    CreateExecution,
    Claim,
    Complete,
    Fail,
    Renew,
    AppendFrames,
    PutStep,
    Purge,
)
"""Those that have a fast path (operations/)."""


def fields() -> dict[str, tuple[str, ...]]:
    """Return the fields of every form that Lua knows, in their places."""
    kinds: list[type[msgspec.Struct]] = [
        *_record_forms(),
        *_COMMANDS,
        HolderCommand,
        Fence,
        FrameInput,
        Sight,
    ]
    named = {kind.__name__: kind.__struct_fields__ for kind in kinds}
    return named | {"Execution": (*PACKED, *HOT, *RARE, *FIXED)}


def default_texts() -> dict[str, list[str]]:
    """Return the defaults of every record as Lua."""
    named = fields()
    return {
        form.__name__: [lua(default) for default in _defaults(form, named[form.__name__])]
        for form in _record_forms()
    }


def tables() -> str:
    """Return the Lua text of every generated table."""
    forms = _record_forms()
    named = fields()
    parts: dict[str, Any] = {
        "RECORD_VERSION": records.VERSION,
        "names": sorted(named),
        "sizes": {name: len(inside) for name, inside in sorted(named.items())},
        "fields": {name: _places(inside) for name, inside in sorted(named.items())},
        "parts": {"hot": len(PACKED) + len(HOT), "rare": len(PACKED) + len(HOT) + len(RARE)},
        "TOLD": TOLD,
        "defaults": {form.__name__: _defaults(form, named[form.__name__]) for form in forms},
        "bytes_at": {
            FORMS[kind].__name__: FORMS[kind].__struct_fields__.index(field) + 1
            for kind, field in BYTES.items()
        },
        "form_of": {kind: form.__name__ for kind, form in FORMS.items()},
        "T": _rows(),
        "public_runnable": {
            str(each): str(public_state(Phase.RUNNABLE, each, Outcome.NONE)) for each in Eligibility
        },
        "public_ends": {
            str(each): str(public_state(Phase.TERMINAL, Eligibility.NONE, each)) for each in Outcome
        },
        "final_lives": {str(life): True for life in sorted(FINAL_LIVES)},
        "failure_categories": policy.FAILURE_CATEGORIES,
        "final_categories": dict.fromkeys(policy.FINAL_CATEGORIES, True),
        "limits": _limits(),
    }
    return "\n".join([*(f"ff.{name} = {lua(value)}" for name, value in parts.items()), *_moves()])


def _record_forms() -> list[type[msgspec.Struct]]:
    found = [
        kind
        for _, kind in inspect.getmembers(records, inspect.isclass)
        if issubclass(kind, records.Record | records.Execution) and kind is not records.Record
    ]
    return [*found, Policy]


def _places(fields: tuple[str, ...]) -> dict[str, int]:
    return {field: place for place, field in enumerate(fields, 1)}


def _defaults(form: type[msgspec.Struct], names: tuple[str, ...]) -> list[Any]:
    """Return the default of each field; nil where one must be given."""
    known = {
        field.name: None if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)
        for field in msgspec.structs.fields(form)
    }
    known |= dict.fromkeys(PACKED, False) | {"rest": 2}
    return [known[name] for name in names]


def _rows() -> dict[str, dict[str, Any]]:
    return {name: _row(row) for name, row in NAMED.items()}


def _moves() -> list[str]:
    """Write each row as a function that puts its values into a draft, and the public state where that follows."""
    at = _places(fields()["Execution"])
    found = []
    for name, row in NAMED.items():
        values = zip(_DIMENSIONS, row.to, strict=True)
        to = {at[field]: str(value) for field, value in values if value is not transitions.KEEP}
        if (seen := _public(row)) is not None:
            to[at["public_state"]] = str(seen)
        set_all = " ".join(f"run[{place}] = {lua(value)}" for place, value in to.items())
        found.append(f"ff.T.{name}.apply = function(run) {set_all} end")
    return found


def _public(row: Transition) -> Public | None:
    """Return the public state in which a row ends, if the row alone says it."""
    phase, eligibility, outcome = row.to.phase, row.to.eligibility, row.to.outcome
    if phase is None or eligibility is None or outcome is None:
        return None
    return public_state(phase, eligibility, outcome)


def _row(row: Transition) -> dict[str, Any]:
    return {
        "number": row.number,
        "event": row.event,
        "before": {str(phase): True for phase in row.before},
        "owners": None if row.owners is ANY_OWNER else {str(owner): True for owner in row.owners},
        "eligible": None if row.eligible is ANY_ELIGIBILITY else {str(each): True for each in row.eligible},
        "whole": _public(row) is not None,
        "keeps_attempt": row.to.attempt is transitions.KEEP,
        "attempt_life": None if row.attempt_life is None else str(row.attempt_life),
        "closes_stream": row.closes_stream,
    }


_DIMENSIONS: Final = (
    "lifecycle_phase",
    "ownership_state",
    "eligibility_state",
    "blocking_reason",
    "terminal_outcome",
    "attempt_state",
)


def _limits() -> dict[str, Any]:
    found = {name: value for name, value in vars(limits).items() if name.isupper()}
    return found | {
        "RENOTE_MS": presence.RENOTE_MS,
        "DEFAULT_DELAY_MS": policy.DEFAULT_DELAY_MS,
        "MAX_BACKOFF_STEPS": policy.MAX_BACKOFF_STEPS,
    }


def lua(value: Any) -> str:
    """Write a plain value as Lua."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum | str):
        return _text(str(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        inside = ", ".join(f"[{lua(key)}] = {lua(each)}" for key, each in value.items() if each is not None)
        return f"{{{inside}}}"
    return f"{{{', '.join(lua(each) for each in value)}}}"


def _text(text: str) -> str:
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "'\\" else f"\\{byte:03d}"
        for byte in text.encode()
    )
    return f"'{plain}'"

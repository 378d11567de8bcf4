"""Signals and waitpoints as a handler sees them, and the conditions of its waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from flowfabric.codecs import JSON, Codec, decode_value
from flowfabric.model.conditions import Condition, friendly_condition
from flowfabric.model.errors import invalid
from flowfabric.model.views import SignalView

Count = int | Literal["any", "all"]


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that ended a wait. Its name is empty if an operator resumed the run without a signal."""

    name: str
    """The name of the signal: `approve`."""
    data: bytes = b""
    """The payload as it was sent."""
    encoding: str = ""
    """The encoding of the payload that the sender named."""
    source: str = ""
    """The source that the sender named."""
    id: str = ""
    """The id of the signal."""
    at: int = 0
    """When it was accepted, in milliseconds since 1970."""

    @property
    def payload(self) -> Any:
        """The payload as a value: decoded if it is JSON, None if it is empty, else bytes."""
        return self.read(Any)

    def read(self, type_: Any, codec: Codec = JSON) -> Any:
        """Decode the payload as a type: `signal.read(Decision)`."""
        if not self.data:
            return None
        known = self.encoding in {"", codec.name}
        return decode_value(self.data, codec.name if known else "bytes", type_, codec)


def signal_of(view: SignalView) -> Signal:
    """Return a stored signal as a handler sees it."""
    return Signal(
        view.signal_name,
        view.payload,
        view.payload_encoding,
        view.source_identity,
        view.signal_id,
        view.accepted_at,
    )


@dataclass(frozen=True, slots=True)
class Waitpoint:
    """Where signals can be sent, and the token that they must carry: pass both to whoever is to answer."""

    id: str
    """The id, for `Run.signal(waitpoint=…)`."""
    key: str
    """The name that the handler gave it."""
    token: str
    """The token, for `Run.signal(token=…)`. A secret, hidden in `repr`; empty once the waitpoint is closed."""

    def __repr__(self) -> str:
        return f"Waitpoint(id={self.id!r}, key={self.key!r}, token=…)"


def encode_details(details: Mapping[str, Any] | None) -> str:
    """Return the details of a question as a JSON object."""
    if details is None:
        return ""
    try:
        return msgspec.json.encode(dict(details)).decode()
    except (TypeError, ValueError) as error:
        raise invalid("details", f"give names and values that JSON can hold: {error}") from error


def condition_of(names: tuple[str, ...], count: Count | None, *, distinct: bool, key: str) -> Condition:
    """Return the condition of a wait: any or all of the names, or a count; from distinct sources if requested."""
    if isinstance(count, str) and count not in {"any", "all"}:
        raise invalid("count", f"{count!r} is neither a number nor 'any' or 'all'")
    if not distinct and not isinstance(count, int):
        return friendly_condition(names, count or "any", 0, "", (key,))
    wanted = count if isinstance(count, int) else len(names) if count == "all" else 1
    same = len(names) == 1 and wanted > 1  # one name several times: each signal counts
    return friendly_condition(
        names, "count", wanted, "sources" if distinct else "signals" if same else "", (key,)
    )

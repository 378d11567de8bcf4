"""What a handler waits for, and what it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from flowfabric.codecs import JSON, Codec, decode_value
from flowfabric.model.conditions import Condition, friendly_condition
from flowfabric.model.contracts.lease import SignalView
from flowfabric.model.errors import invalid

Count = int | Literal["any", "all"]


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that ended a wait. Its name is empty when an operator resumed the run without one."""

    name: str
    """What the sender called it: `approve`."""
    data: bytes = b""
    """The payload as it was sent."""
    encoding: str = ""
    """How the payload is written, as the sender says."""
    source: str = ""
    """Who sent it, as the sender says."""
    id: str = ""
    """The id of the signal."""
    at: int = 0
    """When it was accepted, in milliseconds since 1970."""

    @property
    def payload(self) -> Any:
        """The payload as a value: JSON is read, anything else stays bytes, nothing is None."""
        return self.read(Any)

    def read(self, type_: Any, codec: Codec = JSON) -> Any:
        """Read the payload as a type: `signal.read(Decision)`."""
        if not self.data:
            return None
        known = self.encoding in {"", codec.name}
        return decode_value(self.data, codec.name if known else "bytes", type_, codec)


def signal_of(view: SignalView) -> Signal:
    """Show a stored signal as a handler sees it."""
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
    """A place where signals arrive, and the token that they must carry: send both to whoever is to answer."""

    id: str
    """What `Run.signal` takes as `waitpoint`."""
    key: str
    """The name that the handler gave it."""
    token: str
    """What `Run.signal` takes as `token`: a secret, so it is not shown. Empty when the waitpoint is closed."""

    def __repr__(self) -> str:
        return f"Waitpoint(id={self.id!r}, key={self.key!r}, token=…)"


def encode_details(details: Mapping[str, Any] | None) -> str:
    """Write the details of a question as the JSON object that a waitpoint keeps."""
    if details is None:
        return ""
    try:
        return msgspec.json.encode(dict(details)).decode()
    except (TypeError, ValueError) as error:
        raise invalid("details", f"give names and values that JSON can hold: {error}") from error


def condition_of(names: tuple[str, ...], count: Count | None, *, distinct: bool, key: str) -> Condition:
    """Build the condition of a wait: one of the names, all of them, or so many; from different sources if asked."""
    if isinstance(count, str) and count not in {"any", "all"}:
        raise invalid("count", f"{count!r} is neither a number nor 'any' or 'all'")
    if not distinct and not isinstance(count, int):
        return friendly_condition(names, count or "any", 0, "", (key,))
    wanted = count if isinstance(count, int) else len(names) if count == "all" else 1
    same = len(names) == 1 and wanted > 1  # one name several times: each signal counts
    return friendly_condition(
        names, "count", wanted, "sources" if distinct else "signals" if same else "", (key,)
    )

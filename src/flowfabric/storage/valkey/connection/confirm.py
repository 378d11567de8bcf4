"""A connection whose functions count as done when replicas have what they wrote.

One `WAIT` follows the calls of a turn, in the same write. It covers what the connection itself has written, so a small
write goes before it: a call that only finds what another connection wrote a moment ago is confirmed like the first.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from libvalkey import ReplyError

from flowfabric.model.errors import Unreachable, Unreplicated
from flowfabric.storage.valkey.connection.wire import CALL_SECONDS, Future, Wire
from flowfabric.storage.valkey.keys import PREFIX

WAIT_MS: Final = 1_000
"""How long replicas may take."""
MARK: Final = f"{PREFIX}confirmed"
_Held = list[tuple[Future, Future]]
"""Replies as they came, and whoever waits for them."""


class ConfirmedWire(Wire):
    """Holds the replies of functions back until enough replicas have confirmed."""

    early = 0  # one `WAIT` for all calls of a turn

    def __init__(self, timeout: float = CALL_SECONDS, replicas: int = 1) -> None:
        super().__init__(timeout)
        self._replicas = replicas
        self._held: _Held = []
        self._mark = MARK

    def call(self, arguments: tuple[Any, ...]) -> Future:
        """Send one call; if it may write, its reply is given out when what it wrote is confirmed."""
        reply = super().call(arguments)
        if arguments[0] != "FCALL" or reply.done():
            return reply
        if not self._held:
            self._mark = MARK + _slot(arguments)
        future: Future = self._loop.create_future()
        self._held.append((reply, future))
        return future

    def _flush(self) -> None:
        if self._held and self.alive:
            held, self._held = self._held, []
            marked = super().call(("SET", self._mark, ""))
            confirmed = super().call(("WAIT", self._replicas, WAIT_MS))
            confirmed.add_done_callback(partial(self._settle, held, marked))
        super()._flush()

    def _settle(self, held: _Held, marked: Future, confirmed: Future) -> None:
        lost = marked.exception() or confirmed.exception()
        doubt = lost or self._doubt(marked.result(), confirmed.result())
        for reply, future in held:
            error = reply.exception()
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            elif doubt is None or isinstance(reply.result(), ReplyError):
                future.set_result(reply.result())
            else:
                future.set_exception(doubt)

    def _doubt(self, marked: Any, count: Any) -> Unreplicated | None:
        for reply in (marked, count):
            if isinstance(reply, ReplyError):
                return Unreplicated(f"it was done, but replicas cannot confirm it: {reply}")
        if count < self._replicas:
            return Unreplicated(
                f"it was done, but {count} of {self._replicas} replicas confirmed it within {WAIT_MS} ms: "
                "it is lost if this server is lost now; ask again"
            )
        return None

    def _give_up(self, why: str) -> None:
        super()._give_up(why)
        held, self._held = self._held, []
        for reply, future in held:  # never sent
            error = reply.exception() or Unreachable(why)
            if not future.done():
                future.set_exception(error)


def _slot(arguments: tuple[Any, ...]) -> str:
    """Return the hash tag of the key that a function is called with, so that the mark lies on the same node."""
    if str(arguments[2]) == "0":
        return ""
    _, brace, rest = str(arguments[3]).partition("{")
    tag, end, _ = rest.partition("}")
    return f":{{{tag}}}" if brace and end and tag else ""

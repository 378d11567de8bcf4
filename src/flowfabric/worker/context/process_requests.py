"""What a handler in a process of its own asks of its worker, and how the worker answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowfabric.worker.context.context import Context
from flowfabric.worker.context.session import HandlerSession
from flowfabric.worker.steps.journal import STEPS_AROUND

_CONTEXT_METHODS: Final = frozenset(
    {
        "approval_link",
        "create_waitpoint",
        "emit",
        "flush",
        "progress",
        "sleep",
        "summary",
        "wait_for_signal",
    }
)
"""Methods of `Context` that a process may call."""


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A call that the process of a handler asks its worker to make."""

    method: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[str, ...] = field(default_factory=STEPS_AROUND.get)
    """The steps inside which the handler asks, outermost first."""


class RequestServer:
    """Answers the requests of one handler. Created on the event loop, used by the thread that reads the pipe."""

    def __init__(self, session: HandlerSession) -> None:
        self._session = session
        self._context = Context(session)
        self._loop = asyncio.get_running_loop()

    def answer(self, request: ContextRequest) -> tuple[bool, Any]:
        """Make the call; return whether it succeeded, and its value or exception."""
        work = self._session.carry_out(self._call(request))
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _call(self, request: ContextRequest) -> Any:
        session, args = self._session, request.args
        STEPS_AROUND.set(request.steps)
        match request.method:
            case "events":
                return session.cancelled.is_set(), session.lost.is_set()
            case "find_step":
                name, position = session.journal.next_call(*args)
                return name, position, await session.journal.find(name)
            case "put_step":
                return await session.steps.put(*args)
            case "submit":
                return (await session.children.submit(*args)).id
            case "call_child":
                child_id, method, argument = args
                return await getattr(session.children.by_id[child_id], method)(argument)
        assert request.method in _CONTEXT_METHODS, "the other end asks for nothing else"
        return await getattr(self._context, request.method)(*args, **request.kwargs)

"""Publishing the tasks of an app when a worker starts, so that their options apply to submissions by name."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from flowfabric.app.tasks import TaskDefinition
from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, NotFound, Unauthorized
from flowfabric.model.limits import MAX_DESCRIPTION_BYTES, MAX_SCHEMA_BYTES
from flowfabric.model.operations.kind import Published, PublishKind
from flowfabric.storage.base import Commands
from flowfabric.worker.handlers import Handler
from flowfabric.worker.outbox import RetryPause, is_transient

log = logging.getLogger("flowfabric.worker")

START_SECONDS: Final = 2.0
"""How long a starting worker waits for its kinds to be published; publishing then continues in the background."""
AT_ONCE: Final = 256
"""Kinds in one call."""


def kind_of_task(task: TaskDefinition, handler: Handler, namespace: str, actor: str) -> PublishKind:
    """Return the command that publishes a task: its options, parameters and docstring."""
    options = task.options
    return PublishKind(
        kind=task.kind,
        namespace=namespace,
        lane=options.lane or "",
        priority=options.priority,
        tags=options.tag_pairs(),
        required_capabilities=checks.required_capabilities(list(options.capabilities or ())),
        fairness_key=options.fairness_key or "",
        fairness_weight=options.fairness_weight,
        policy=task.policy.decode(),
        input_schema=_schema(handler),
        description=_shortened(inspect.getdoc(task.function) or ""),
        actor=actor,
    )


def _schema(handler: Handler) -> str:
    try:
        text = msgspec.json.encode(handler.signature.schema())
    except Exception:
        log.warning("the parameters of the task %s cannot be described", handler.kind, exc_info=True)
        return ""
    return text.decode() if len(text) <= MAX_SCHEMA_BYTES else ""


def _shortened(text: str) -> str:
    """Shorten a docstring that is too long to be published."""
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_DESCRIPTION_BYTES:
        return data.decode()
    return data[: MAX_DESCRIPTION_BYTES - 3].decode("utf-8", "ignore") + "…"


class Publisher:
    """Publishes kinds while it is open, and retries while the store is unreachable. It never fails a worker."""

    def __init__(self, store: Commands, kinds: Sequence[PublishKind]) -> None:
        self._store = store
        self._kinds = kinds
        self._publishing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._publishing = asyncio.create_task(self._publish_all(), name="flowfabric-kinds")
        await asyncio.wait({self._publishing}, timeout=START_SECONDS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._publishing is not None
        self._publishing.cancel()
        await asyncio.gather(self._publishing, return_exceptions=True)

    async def _publish_all(self) -> None:
        left = list(self._kinds)
        backoff = RetryPause()
        try:
            while left := await self._publish(left):
                await backoff.pause()
        except FlowFabricError as error:
            log.warning(
                "tasks were not published, so their options hold only for app.submit(function): %s", error
            )
        except Exception:
            log.exception("tasks could not be published")

    async def _publish(self, kinds: Sequence[PublishKind]) -> list[PublishKind]:
        """Publish kinds; return those to try again later."""
        again: list[PublishKind] = []
        for start in range(0, len(kinds), AT_ONCE):
            part = kinds[start : start + AT_ONCE]
            try:
                replies = await self._store.apply_many(part)
            except FlowFabricError as error:
                replies = [error] * len(part)
            for command, reply in zip(part, replies, strict=True):
                if isinstance(reply, Published):
                    log.debug("published the task %s", command.kind)
                elif isinstance(reply, FlowFabricError):
                    if isinstance(
                        reply, NotFound | Unauthorized
                    ):  # an older server, or a token without the right
                        raise reply
                    if is_transient(reply):
                        again.append(command)
                    else:
                        log.warning("the task %s was not published: %s", command.kind, reply)
        return again

"""What a context knows about its run without asking the store."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flowfabric.codecs import Codec
from flowfabric.worker.claimed_task import ClaimedTask

Log = logging.LoggerAdapter[logging.Logger]


@dataclass(frozen=True, slots=True)
class ContextFacts:
    """The constant properties of one run of a handler. They are sent to handlers in other processes."""

    execution_id: str
    kind: str
    attempt: int
    tags: dict[str, str]
    fence: str
    deadline: datetime | None
    codec: Codec
    log_level: int

    @classmethod
    def of(cls, task: ClaimedTask, codec: Codec, log: Log) -> ContextFacts:
        """Collect the facts of a claimed task."""
        claimed = task.task
        deadlines = [at for at in (claimed.attempt_deadline_at, claimed.execution_deadline_at) if at]
        return cls(
            execution_id=task.execution_id,
            kind=task.execution_kind,
            attempt=task.attempt_index,
            tags=task.tags,
            fence=f"{task.execution_id}:{task.lease_epoch}",
            deadline=datetime.fromtimestamp(min(deadlines) / 1000, UTC) if deadlines else None,
            codec=codec,
            log_level=log.getEffectiveLevel(),
        )


def task_log(kind: str, execution_id: str, attempt: int) -> Log:
    """Return the logger of a kind, which adds the ids of a run to every record."""
    ids = {"execution_id": execution_id, "attempt": attempt, "kind": kind}
    return _TaskLog(logging.getLogger(f"flowfabric.task.{kind}"), ids)


class _TaskLog(logging.LoggerAdapter[logging.Logger]):
    """Adds the ids of a run to every record."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs

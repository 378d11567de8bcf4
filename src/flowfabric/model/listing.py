"""Lists of executions: which index drives one, and what the further filters let through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from flowfabric.model.contracts.reads import (
    PAGE_MAX,
    FindExecutions,
    ListExecutions,
    ListPartition,
    ListQueue,
)
from flowfabric.model.records import Execution
from flowfabric.model.state import Eligibility, Phase

LOOK_AHEAD: Final = 10
"""Rows looked at for each row asked for; a page may be short while there is a next one."""


def driven(question: ListExecutions, run: Execution) -> bool:
    """Whether the index that drives the list holds this execution; only such rows count as looked at.

    A namespace has indexes of its own: by flow, by tag and by state. A lane is filtered there, since an index of lanes
    and states for each namespace would be written at every change of state.
    """
    if question.namespace and run.namespace != question.namespace:
        return False
    if question.flow_id:
        return run.flow_id == question.flow_id
    if question.tags:
        return question.tags[0] in run.tags
    if question.lane_id and not question.namespace and run.lane_id != question.lane_id:
        return False
    states = question.looked_at() if question.lane_id or question.namespace else ()
    return not states or run.public_state in states


def matches(question: ListExecutions, run: Execution) -> bool:
    """Whether every filter lets it through."""
    return (
        driven(question, run)
        and (not question.lane_id or run.lane_id == question.lane_id)
        and _in_state(question, run)
        and (not question.execution_kind or run.execution_kind == question.execution_kind)
        and all(tag in run.tags for tag in question.tags)
        and (not question.created_after or run.created_at > question.created_after)
        and (not question.created_before or run.created_at < question.created_before)
    )


def _in_state(question: ListExecutions, run: Execution) -> bool:
    if not question.states and not question.eligible:
        return True
    eligible = run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW
    return run.public_state in question.states or (question.eligible and eligible)


def id_page(question: ListPartition, ids: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Choose a page out of ids; one more than was asked for says that there is a next one."""
    shown = tuple(ids[: question.limit])
    return shown, shown[-1] if len(ids) > len(shown) else ""


def prefix_bounds(question: FindExecutions, partition: str) -> tuple[str, str]:
    """Return between which texts the wanted ids of a partition, `{fp:24}`, lie: from the first, up to the second."""
    low = f"{partition}:{question.prefix}"
    return low, f"{low}g"  # the letter after the last digit


def found_ids(question: FindExecutions, ids: Iterable[str]) -> tuple[str, ...]:
    """Choose the answer out of ids that were gathered from all partitions."""
    return tuple(sorted(ids, key=lambda each: (each.rpartition(":")[2], each))[: question.limit])


def queue_page(
    question: ListQueue, runs: Sequence[Execution]
) -> tuple[tuple[Execution, ...], Execution | None]:
    """Choose a page out of claimable work; what lies behind the last one that was looked at is the next."""
    found: list[Execution] = []
    for seen, run in enumerate(runs):
        if seen == queue_look(question) or len(found) == question.limit:
            return tuple(found), runs[seen - 1]
        if question.namespace in {"", run.namespace}:
            found.append(run)
    return tuple(found), None


def queue_look(question: ListQueue) -> int:
    """How many executions of a queue one page may cost: queues have no index by namespace."""
    most = min(question.limit * LOOK_AHEAD, PAGE_MAX) if question.namespace else 0
    return max(question.limit, most)

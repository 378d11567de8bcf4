"""Lists of executions: which index drives one, and what the further filters let through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from flowfabric.model.contracts.reads import FindExecutions, ListExecutions, ListPartition
from flowfabric.model.records import Execution
from flowfabric.model.state import Eligibility, Phase

LOOK_AHEAD: Final = 10
"""Rows looked at for each row asked for; a page may be short while there is a next one."""


def driven(question: ListExecutions, run: Execution) -> bool:
    """Whether the index that drives the list holds this execution; only such rows count as looked at."""
    if question.flow_id:
        return run.flow_id == question.flow_id
    if question.tags:
        return question.tags[0] in run.tags
    if question.lane_id:
        states = question.looked_at()
        return run.lane_id == question.lane_id and (not states or run.public_state in states)
    return True


def matches(question: ListExecutions, run: Execution) -> bool:
    """Whether every filter lets it through."""
    return (
        driven(question, run)
        and (not question.lane_id or run.lane_id == question.lane_id)
        and _in_state(question, run)
        and (not question.namespace or run.namespace == question.namespace)
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


def rows_to_look_at(question: ListPartition | FindExecutions) -> int:
    """How many rows of a partition one page may cost."""
    return question.limit * LOOK_AHEAD if question.namespace else question.limit


def id_page(question: ListPartition, rows: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], str]:
    """Choose a page out of ids with their namespaces; one row more than may be looked at says that there is a next."""
    found: list[str] = []
    last = ""
    for seen, (execution_id, namespace) in enumerate(rows):
        if seen == rows_to_look_at(question) or len(found) == question.limit:
            return tuple(found), last
        last = execution_id
        if question.namespace in {"", namespace}:
            found.append(execution_id)
    return tuple(found), ""


def prefix_bounds(question: FindExecutions, partition: str) -> tuple[str, str]:
    """Return between which texts the wanted ids of a partition, `{fp:24}`, lie: from the first, up to the second."""
    low = f"{partition}:{question.prefix}"
    return low, f"{low}g"  # the letter after the last digit


def found_ids(question: FindExecutions, rows: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Choose the answer out of ids with their namespaces, gathered from all partitions."""
    ids = (execution_id for execution_id, namespace in rows if question.namespace in {"", namespace})
    return tuple(sorted(ids, key=lambda each: (each.rpartition(":")[2], each))[: question.limit])

"""Lists of executions: which index drives one, and what the further filters let through."""

from __future__ import annotations

from typing import Final

from flowfabric.model.contracts.reads import ListExecutions
from flowfabric.model.records import Execution

LOOK_AHEAD: Final = 10
"""Rows looked at for each row asked for; a page may be short while there is a next one."""


def driven(question: ListExecutions, run: Execution) -> bool:
    """Whether the index that drives the list holds this execution; only such rows count as looked at."""
    if question.flow_id:
        return run.flow_id == question.flow_id
    if question.tags:
        return question.tags[0] in run.tags
    if question.lane_id:
        return run.lane_id == question.lane_id and (
            not question.states or run.public_state in question.states
        )
    return True


def matches(question: ListExecutions, run: Execution) -> bool:
    """Whether every filter lets it through."""
    return (
        driven(question, run)
        and (not question.lane_id or run.lane_id == question.lane_id)
        and (not question.states or run.public_state in question.states)
        and (not question.namespace or run.namespace == question.namespace)
        and (not question.execution_kind or run.execution_kind == question.execution_kind)
        and all(tag in run.tags for tag in question.tags)
        and (not question.created_after or run.created_at > question.created_after)
        and (not question.created_before or run.created_at < question.created_before)
    )

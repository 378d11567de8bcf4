"""Warn about a kind that no worker has published, and a lane that no worker serves."""

from __future__ import annotations

from typing import Final

from flowfabric.cli.support.pages import iterate_kinds, read_lane_names
from flowfabric.cli.support.session import CommandSession
from flowfabric.model.errors import NotFound, Unauthorized
from flowfabric.model.kinds import DEFAULT_LANE
from flowfabric.model.operations.worker_serving import nearest_name
from flowfabric.model.records import Kind

MAX_KINDS: Final = 1_000
"""The number of published kinds among which the nearest name is searched."""


async def warn_about_names(session: CommandSession, kind: Kind | None) -> list[str]:
    """Return a warning for each name of a submission that may be misspelt: its kind and its lane."""
    warnings = [] if kind is not None else [await _warn_about_kind(session)]
    lane = session.given.lane
    if lane and (warning := await _warn_about_lane(session, lane, kind)):
        warnings.append(warning)
    return warnings


async def _warn_about_kind(session: CommandSession) -> str:
    given = session.given
    defaults = [*(() if given.lane else ("lane default",)), *(() if given.policy else ("no retries",))]
    problem = f"no worker has published {given.kind} yet, so it has no options of its own"
    if defaults:
        problem = f"{problem} ({', '.join(defaults)})"
    try:
        names = [each.kind async for each in iterate_kinds(session.store, given.namespace, MAX_KINDS)]
    except (NotFound, Unauthorized):  # an older server, or a token that may only submit
        return problem
    near = nearest_name(given.kind, names)
    return f"{problem}; the nearest published name is {near}" if near else problem


async def _warn_about_lane(session: CommandSession, lane: str, kind: Kind | None) -> str:
    try:
        known = await read_lane_names(session.store)
    except (NotFound, Unauthorized):
        return ""
    if lane in known:
        return ""
    near = nearest_name(lane, known | ({kind.lane or DEFAULT_LANE} if kind is not None else set()) - {lane})
    problem = f"no live worker serves lane {lane}, and there is no other work on it"
    return f"{problem}; the nearest known lane is {near}" if near else problem

"""Changing a priority: the answer has the old one and the new one in its headers."""

from __future__ import annotations

from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.routing import apply, serves
from flowfabric.wire.operate import CHANGE_PRIORITY, PriorityView


@serves(CHANGE_PRIORITY)
async def change_priority(call: ServerCall) -> Response:
    """Change a priority."""
    changed = await apply(call, CHANGE_PRIORITY)
    headers = (("x-old-priority", str(changed.old)), ("x-new-priority", str(changed.new)))
    return Response(
        CHANGE_PRIORITY.answer.write(PriorityView(execution_id=call.execution_id)), headers=headers
    )

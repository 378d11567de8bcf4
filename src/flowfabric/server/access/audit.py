"""The audit log: who did what on what, and how it ended. It holds names and ids, never a body, never a secret."""

from __future__ import annotations

import logging
from typing import Any, Final

from flowfabric.logs import AUDIT
from flowfabric.server.access.roles import Principal
from flowfabric.wire.rights import Right

AUDITED: Final = frozenset({Right.OPERATE, Right.ADMIN})
"""What is written down: everything that needs one of these, refusals included."""
NEEDED: Final = "flowfabric.needed"
"""Where a handler notes, in the scope of a request, that this one needs more than its route."""
SECRET_PARAMETERS: Final = frozenset({"signed"})
"""Parts of a path that open something by themselves."""

log: Final = logging.getLogger(AUDIT)
log.setLevel(logging.INFO)  # of its own, so that a quieter general log does not silence it


def record(event: str, *, failed: bool = False, **facts: Any) -> None:
    """Write one line."""
    log.log(logging.ERROR if failed else logging.INFO, event, extra=facts)


def request(
    method: str,
    template: str,
    path: dict[str, str],
    principal: Principal | None,
    status: int,
    request_id: str,
    code: str = "",
) -> None:
    """Write down one request of an operator or administrator, let in or not."""
    on = {name: value for name, value in path.items() if name not in SECRET_PARAMETERS}
    record(
        "request",
        who=principal.name if principal else "unknown",
        role=str(principal.role) if principal else "",
        what=f"{method} {template}",
        on=on,
        outcome=_outcome(status),
        status=status,
        code=code,
        request_id=request_id,
    )


def _outcome(status: int) -> str:
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"

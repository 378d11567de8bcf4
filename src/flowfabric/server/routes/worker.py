"""Workers: registration and death, and which workers live."""

from __future__ import annotations

from flowfabric.engine.workers import bury
from flowfabric.model.command import PAGE_MAX
from flowfabric.model.operations.lease import CountLeases
from flowfabric.model.operations.worker import ListWorkers, Refreshed
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.listing import read_names
from flowfabric.server.http.routing import apply, serves
from flowfabric.wire.worker import LIST_WORKERS, MARK_DEAD, REGISTER, WorkerPage, WorkerRow


@serves(REGISTER)
async def register(call: ServerCall) -> Response:
    """Announce a worker; until when a known one lives is in a header."""
    outcome = await apply(call, REGISTER)
    until = (("x-next-expiry-ms", str(outcome.next_expiry)),) if isinstance(outcome, Refreshed) else ()
    return Response(type(outcome).__name__, headers=until)


@serves(MARK_DEAD)
async def dead(call: ServerCall) -> Response:
    """Declare a worker dead, and take its leases."""
    command = MARK_DEAD.read_command(call, call.body)
    outcome, _ = await bury(call.store, command, only=call.principal.namespace)
    return Response(MARK_DEAD.answer.write(outcome))


@serves(LIST_WORKERS)
async def workers(call: ServerCall) -> Response:
    """List live workers, and how many leases each holds."""
    bound = call.principal.namespace
    after, _, instance = call.query.cursor.rpartition(" ")  # no instance has a blank in its name
    asked = min(call.query.limit + 1, PAGE_MAX)
    found, more = await read_names(call, ListWorkers(namespace=bound, after=(after, instance), limit=asked))
    page = found[: call.query.limit]
    ids = tuple(worker.worker_instance_id for worker in page)
    held = await call.read(CountLeases(worker_instance_ids=ids, namespace=bound))
    cursor = f"{page[-1].namespace} {page[-1].worker_instance_id}" if more else None
    rows = tuple(
        WorkerRow.of(
            worker,
            kinds=worker.kinds or None,
            leases_held=leases,
            last_heartbeat_ms=worker.last_heartbeat_at,
            registered_at_ms=worker.registered_at,
        )
        for worker, leases in zip(page, held, strict=True)
    )
    return Response(WorkerPage(workers=rows, next_cursor=cursor))

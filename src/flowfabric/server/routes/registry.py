"""Workers tell that they live, and others that they do not."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.engine.workers import bury
from flowfabric.model import checks
from flowfabric.model.limits import LIVENESS_MS
from flowfabric.model.operations.worker import HeartbeatWorker, MarkWorkerDead, Refreshed, RegisterWorker
from flowfabric.server.call import Answer, Call
from flowfabric.server.forms import Integer
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint


class Registration(Struct, frozen=True):
    """A worker, what it serves and what it can do."""

    worker_instance_id: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    liveness_ttl_ms: Integer = LIVENESS_MS
    kinds: tuple[str, ...] | None = None
    namespace: str | None = None


class SignOfLife(Struct, frozen=True):
    """One instance of a worker."""

    worker_instance_id: str
    namespace: str | None = None


class Death(Struct, frozen=True):
    """One instance of a worker that is gone."""

    worker_instance_id: str
    reason: str = ""
    namespace: str | None = None


@endpoint("POST", "/v1/workers/{worker_id}/register", Need.WORK, body=Registration, bound=True)
async def register(call: Call) -> Answer:
    """Announce a worker; a repeat overwrites what it said before."""
    body: Registration = call.body
    outcome = await call.apply(
        RegisterWorker(
            worker_id=call.path["worker_id"], worker_instance_id=body.worker_instance_id,
            namespace=call.namespace(body.namespace), lanes=body.lanes, capabilities=body.capabilities,
            liveness_ttl_ms=body.liveness_ttl_ms, kinds=body.kinds, actor=call.actor,
        )
    )  # fmt: skip
    until = (("x-next-expiry-ms", str(outcome.next_expiry)),) if isinstance(outcome, Refreshed) else ()
    return Answer(type(outcome).__name__, headers=until)


@endpoint("POST", "/v1/workers/{worker_id}/heartbeat", Need.WORK, body=SignOfLife, bound=True)
async def heartbeat(call: Call) -> Answer:
    """Say that a registered worker lives."""
    body: SignOfLife = call.body
    checks.worker("worker_id", call.path["worker_id"])
    outcome = await call.apply(
        HeartbeatWorker(
            worker_instance_id=body.worker_instance_id,
            namespace=call.namespace(body.namespace),
            actor=call.actor,
        )
    )
    if isinstance(outcome, Refreshed):
        return Answer({"Refreshed": {"next_expiry_ms": outcome.next_expiry}})
    return Answer(type(outcome).__name__)


@endpoint("POST", "/v1/workers/{worker_id}/dead", Need.WORK, body=Death, bound=True)
async def dead(call: Call) -> Answer:
    """Declare a worker dead: what it held is claimable at once."""
    body: Death = call.body
    checks.worker("worker_id", call.path["worker_id"])
    outcome, _ = await bury(
        call.store,
        MarkWorkerDead(
            worker_instance_id=body.worker_instance_id,
            namespace=call.namespace(body.namespace),
            reason=body.reason,
            actor=call.actor,
        ),
        only=call.principal.namespace,
    )
    return Answer(type(outcome).__name__)

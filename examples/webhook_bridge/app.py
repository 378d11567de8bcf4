"""Webhooks in, durable work out: a FastAPI service between an outside system and tasks.

Run it with `uvicorn --app-dir examples/webhook_bridge app:web`.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request

from flowfabric import Context, FlowFabric, NothingWaits, TaskFailed, WaitTimeout, errors

app = FlowFabric(os.environ.get("FF_STORE", "orders.db"))


def ship(order: str) -> str:
    """Stand for the call to the warehouse."""
    return f"{order} shipped"


@app.task(retries=3)
async def fulfil(ctx: Context, order: str) -> str:
    """Ship an order when the payment service has told that it was paid."""
    try:
        paid = await ctx.wait_for_signal("paid", timeout="3d", name="payment")
    except WaitTimeout:
        return f"{order} given up"
    return f"{await ctx.step('ship', ship, order)}, paid {paid.payload['amount']}"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Work in the same process; leave the worker out when `ff worker` runs elsewhere."""
    async with app, app.worker():
        yield


web = FastAPI(lifespan=lifespan)


@web.post("/orders/{order}", status_code=202)
async def place(order: str) -> dict[str, Any]:
    """Start the work; a request that is sent twice starts it once, because the order is its key."""
    run = await app.options(key=f"order-{order}").submit(fulfil, order)
    return {"run": run.id, "new": not run.duplicate}


@web.post("/hooks/payments/{run_id}", status_code=204)
async def payment(run_id: str, request: Request) -> None:
    """Let the payment service's event in. Check its signature here, before anything else.

    Services send an event again when they are in doubt: its id is the key, so that it counts once.
    """
    event = await request.json()
    try:
        await app.run(run_id).signal(
            "paid", {"amount": event["amount"]}, by="payments", key=event["id"], within="5s"
        )
    except (errors.NotFound, errors.InvalidInput) as error:
        raise HTTPException(404, "no such run") from error
    except NothingWaits as error:
        if not (await app.run(run_id).status()).ended:
            raise HTTPException(409, str(error)) from error  # the service sends it again


@web.get("/orders/{run_id}")
async def order(run_id: str, wait: float = 0) -> dict[str, Any]:
    """Say where an order stands; `?wait=5` waits for its end."""
    run = app.run(run_id, fulfil)
    try:
        return {"state": "completed", "result": await run.result(timeout=wait)}
    except TimeoutError:
        return {"state": (await run.status()).state}
    except TaskFailed as failure:
        return {"state": "failed", "reason": failure.reason}
    except (errors.NotFound, errors.InvalidInput) as error:
        raise HTTPException(404, "no such run") from error

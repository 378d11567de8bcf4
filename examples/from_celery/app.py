"""What Celery users write, and what they write here. Run it with `python examples/from_celery/app.py`."""

import asyncio
import os

from flowfabric import Backoff, Context, FlowFabric, Retry, SyncContext

# app = Celery("shop", broker="redis://…", backend="redis://…")
app = FlowFabric(os.environ.get("FF_STORE", "shop.db"))


# @app.task
@app.task
def add(x: int, y: int) -> int:
    """A plain function is a plain task, and can still be called."""
    return x + y


# @app.task(bind=True, autoretry_for=(ConnectionError,), max_retries=3, retry_backoff=True, queue="mail", time_limit=60)
@app.task(retry_on=ConnectionError, retries=3, backoff=Backoff("10ms"), lane="mail", timeout="1m")
def send_mail(ctx: SyncContext, to: str) -> str:
    """`self` is the context; `self.retry(countdown=…)` is `raise Retry(after=…)`; a queue is a lane."""
    if ctx.attempt == 0:
        raise Retry("the mail server is busy", after="10ms")
    return f"sent to {to}"


# chain(charge.s(20), send_receipt.s()).delay()
@app.task
async def order(ctx: Context, amount: int) -> str:
    """A chain is a function with steps: a crash between them continues at the second."""
    charge = await ctx.step("charge", lambda: f"charged {amount}")
    return await ctx.step("receipt", lambda: f"receipt for: {charge}")


def main() -> None:
    """What the web process does: no async here."""
    sync = app.sync
    # add.delay(1, 2).get(timeout=10)
    print(sync.submit(add, 1, 2).result(timeout="30s"))
    # send_mail.apply_async(("ada",), countdown=0.01, task_id="welcome-ada")
    run = sync.options(delay="10ms", key="welcome-ada").submit(send_mail, "ada")
    print(run.result(timeout="30s"))
    print(sync.submit(order, 20).result(timeout="30s"))
    # group(add.s(i, i) for i in range(3))().get()
    runs = sync.submit_many(app.call(add, i, i) for i in range(3))
    print([each.result(timeout="30s") for each in runs])
    # AsyncResult(id).state
    print(sync.run(run.id).status().state)


async def both() -> None:
    """Be worker and web process in one, to show it; really the worker is `asyncio.run(app.worker().run())`."""
    async with app.worker():
        await asyncio.to_thread(main)
    await asyncio.to_thread(app.sync.close)


if __name__ == "__main__":
    asyncio.run(both())

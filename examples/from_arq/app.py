"""What arq users write, and what they write here. Run it with `python examples/from_arq/app.py`."""

import asyncio
import os

from flowfabric import Context, FlowFabric, Retry, provided


class Client:
    """Stands for an HTTP client with a pool of connections."""

    def __init__(self) -> None:
        self.open = True

    async def get(self, url: str) -> str:
        """Fetch a page."""
        assert self.open
        return f"page of {url}"


# async def startup(ctx): ctx["client"] = AsyncClient()
# async def shutdown(ctx): await ctx["client"].aclose()
# class WorkerSettings: functions = [download]; on_startup = startup; on_shutdown = shutdown; max_jobs = 10
app = FlowFabric(os.environ.get("FF_STORE", "jobs.db"))


@app.provide(Client)
def client() -> Client:
    """Open it once for each worker; a generator that yields it can close it, too."""
    return Client()


# async def download(ctx, url): session = ctx["client"]; ... raise Retry(defer=5)
@app.task(retries=5, timeout="1m")
async def download(ctx: Context, url: str, *, http: Client = provided) -> int:
    """`ctx["client"]` is a parameter with a type; `ctx["job_try"]` is `ctx.attempt`, from 0."""
    if ctx.attempt == 0:
        raise Retry("not yet", after="10ms")
    page = await ctx.step("get", http.get, url)
    return len(page)


async def main() -> None:
    """Enqueue, enqueue once, enqueue for later."""
    async with app.worker(concurrency=10):
        # redis = await create_pool(RedisSettings()); job = await redis.enqueue_job("download", "http://a")
        job = await app.submit(download, "http://a")
        # await job.result(timeout=5)
        print(await job.result(timeout="30s"))
        # await redis.enqueue_job("download", "http://b", _job_id="b", _defer_by=0.01)
        once = app.options(key=f"b-{job.id}", delay="10ms")
        first = await once.submit(download, "http://b")
        again = await once.submit(download, "http://b")
        print(again.duplicate, again == first, await again.result(timeout="30s"))
        # await job.status()
        print((await job.status()).state)


if __name__ == "__main__":
    asyncio.run(main())

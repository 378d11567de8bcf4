"""A first program: a task, a worker and a run, with everything in one SQLite file.

Run it with `python examples/first_program.py [work.db]`.
"""

import asyncio
import sys

from flowfabric import Context, FlowFabric

app = FlowFabric(sys.argv[1] if len(sys.argv) > 1 else "work.db")


def compose(name: str) -> str:
    """Simulate a slow call that must not happen twice."""
    return f"hello, {name}"


@app.task(retries=3, timeout="1m")
async def greet(ctx: Context, name: str) -> str:
    """Greet somebody."""
    # The result of a step is stored: if the worker dies later, the next attempt reuses it.
    return await ctx.step("greeting", compose, name)


async def main() -> None:
    """Run a worker and a client in one process; both could also be separate programs."""
    async with app.worker():
        run = await app.submit(greet, "world")
        greeting = await run.result()
        print((await run.status()).state, greeting)


if __name__ == "__main__":
    asyncio.run(main())

"""A first program: a task, a worker, a run. Everything is in one SQLite file.

Run it with `python examples/first_program.py [work.db]`.
"""

import asyncio
import sys

from flowfabric import Context, FlowFabric

app = FlowFabric(sys.argv[1] if len(sys.argv) > 1 else "work.db")


def compose(name: str) -> str:
    """Stand for something slow that must not happen twice."""
    return f"hello, {name}"


@app.task(retries=3, timeout="1m")
async def greet(ctx: Context, name: str) -> str:
    """Greet somebody."""
    # A step runs once: if the worker dies after it, the next attempt finds its result.
    return await ctx.step("greeting", compose, name)


async def main() -> None:
    """Be worker and client in one process; another program that opens the same file can be either."""
    async with app.worker():
        run = await app.submit(greet, "world")
        greeting = await run.result()
        print((await run.status()).state, greeting)


if __name__ == "__main__":
    asyncio.run(main())

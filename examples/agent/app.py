"""A durable agent: it plans, looks things up, writes while you watch, and publishes when a person agrees.

Run it with `python examples/agent/app.py`; kill it at any moment and run it again with the id that it printed.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from flowfabric import AttemptStarted, Context, FlowFabric, Run, Superseded, WaitTimeout

app = FlowFabric()  # the store that FF_STORE names, else a SQLite file in your data folder

PACE = float(os.environ.get("AGENT_PACE", "0.6"))
"""Seconds for each word, as a model would take them."""


async def ask_model(prompt: str) -> AsyncIterator[str]:
    """Stand for a language model: put your own client here."""
    for word in f"About {prompt}: it keeps what is done, and does the rest.".split():
        await asyncio.sleep(PACE)
        yield f"{word} "


async def make_plan(question: str) -> list[str]:
    """Say what has to be known to answer."""
    await asyncio.sleep(PACE)
    return [f"what {question} is", f"why {question} matters"]


async def look_up(topic: str) -> str:
    """Stand for a tool: a search, a query, another service."""
    await asyncio.sleep(PACE)
    return f"a note on {topic}"


async def publish(text: str, by: str) -> str:
    """Stand for something that must not happen twice."""
    return f"{text} (approved by {by})"


@app.task(retries=3, timeout="5m")
async def research(ctx: Context, question: str) -> str:
    """Answer a question; a person has the last word."""
    plan = await ctx.step("plan", make_plan, question)
    for done, topic in enumerate(plan, 1):
        note = await ctx.step(f"look up {done}", look_up, topic)
        await ctx.progress(100 * done // (len(plan) + 2), note)

    async def write() -> str:
        words = []
        async for word in ask_model(question):
            await ctx.emit("token", word)  # readers see it at once, and after a crash from the start
            words.append(word)
        return "".join(words).strip()

    draft = await ctx.step("write", write)
    await ctx.progress(90, "waiting for a person")
    try:
        answer = await ctx.wait_for_signal("approve", "reject", timeout="1d", name="approval")
    except WaitTimeout:
        return "nobody answered"
    if answer.name == "reject":
        return f"rejected by {answer.source}"
    return await ctx.step("publish", publish, draft, answer.source)


async def show(run: Run[str]) -> None:
    """Print what the agent writes, until a person has to answer; then ask, and print the end."""
    async for item in run.stream():
        if isinstance(item, AttemptStarted):
            print(f"[attempt {item.attempt}]", flush=True)
            continue
        if isinstance(item, Superseded):
            print("\n[written anew]", flush=True)
            continue
        print(item.text, end="", flush=True)
        if item.text.endswith("rest. "):
            print(flush=True)
            break
    said = await asyncio.to_thread(input, "Publish it? [y/N] ")
    if said.strip().lower() == "y":
        await run.approve(by="you", within="1m")
    else:
        await run.reject(by="you", within="1m")
    print(f"\n{await run.result()}")


async def main() -> None:
    """Be worker and reader in one process."""
    async with app.worker(lease_ttl="5s"):
        if len(sys.argv) > 1:
            run = app.run(sys.argv[1], research)
        else:
            run = await app.submit(research, "durable execution")
            print(f"{run.id} (say it again after a crash)", flush=True)
        await show(run)


if __name__ == "__main__":
    asyncio.run(main())

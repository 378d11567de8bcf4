"""The program of docs/tutorial.md: an article that survives a crash and waits for its editor."""

import os
import signal

from flowfabric import Context, FlowFabric, WaitTimeout

app = FlowFabric()


def research(topic: str) -> list[str]:
    """Simulate a slow, expensive call."""
    print("researching", topic, flush=True)
    return [f"{topic} are old", f"{topic} are hot"]


def write(facts: list[str], *, power_fails: bool) -> str:
    """Simulate a language model; the first time, the machine dies while it writes."""
    print("writing", flush=True)
    if power_fails:
        os.kill(os.getpid(), signal.SIGKILL)
    return ", and ".join(facts)


@app.task(retries=3, timeout="5m")
async def article(ctx: Context, topic: str) -> str:
    """Write an article and publish it when the editor approves."""
    facts = await ctx.step("research", research, topic)
    text = await ctx.step("write", write, facts, power_fails=ctx.attempt == 0)
    try:
        answer = await ctx.wait_for_signal("approve", "reject", timeout="1d")
    except WaitTimeout:
        return "nobody has read it"
    return f"{text} ({answer.name} by {answer.source})"

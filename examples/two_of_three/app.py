"""A payment that two of three people have to approve; nobody counts twice.

Run it with `python examples/two_of_three/app.py`.
"""

import asyncio
import os

from flowfabric import Context, FlowFabric, WaitTimeout

app = FlowFabric(os.environ.get("FF_STORE", "payments.db"))

MAY_APPROVE = ("ada", "bob", "carol")


def pay(amount: int, to: str) -> str:
    """Stand for the transfer."""
    return f"paid {amount} to {to}"


@app.task
async def payment(ctx: Context, amount: int, to: str) -> str:
    """Pay when two different people have agreed."""
    try:
        votes = await ctx.wait_for_signal("approve", count=2, distinct=True, timeout="2d", name="approvals")
    except WaitTimeout:
        return "not paid: fewer than two approvals in two days"
    done = await ctx.step("pay", pay, amount, to)
    return f"{done}, approved by {' and '.join(vote.source for vote in votes)}"


async def vote(run_id: str, person: str) -> None:
    """What your web page does when somebody presses the button; it has checked who that is."""
    if person not in MAY_APPROVE:
        raise PermissionError(f"{person} may not approve payments")
    await app.run(run_id).approve(by=person, within="10s")


async def main() -> None:
    """Vote as ada, as ada again, and as carol."""
    async with app.worker():
        run = await app.submit(payment, 100, "the printer")
        await vote(run.id, "ada")
        await vote(run.id, "ada")
        print("ada twice:", (await run.status()).state)
        await vote(run.id, "carol")
        print(await run.result(timeout="30s"))


if __name__ == "__main__":
    asyncio.run(main())

"""The storage boundary by hand: submit work, claim it, store a step, complete it. Everything is in one SQLite file.

Run it with `python examples/by_hand.py [work.db]`.
"""

import asyncio
import sys
import uuid

from flowfabric import Engine, open_store
from flowfabric.model.ids import spread
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.read import GetResult
from flowfabric.model.operations.step import PutStep


async def main(path: str) -> None:
    """Play client and worker in one process."""
    store = await open_store(path)
    async with Engine(store):  # expires leases, fires retries and timeouts
        # The client: submit.
        execution_id = spread(str(uuid.uuid4()), store.partitions)
        await store.apply(
            CreateExecution(execution_id=execution_id, execution_kind="greet", input_payload=b"world")
        )

        # The worker: claim the best work of a lane, under a lease.
        claim = Claim(
            worker_id="w1",
            worker_instance_id="w1-a",
            lanes=("default",),
            kinds=("greet",),
            mint=str(uuid.uuid4()),
        )
        for task in (await store.apply(claim)).tasks:
            # A stored step outlives this worker: the next attempt finds it in `task.steps`.
            done = {step.name: step.result for step in task.steps}
            greeting = done.get("greeting")
            if greeting is None:
                greeting = b"hello, " + task.input
                await store.apply(
                    PutStep(
                        execution_id=task.execution_id,
                        fence=task.fence,
                        step_name="greeting",
                        result=greeting,
                    )
                )
            # The fence proves that the lease is still ours; a worker that was presumed dead is refused here.
            await store.apply(Complete(execution_id=task.execution_id, fence=task.fence, result=greeting))

        # The client again: read the result.
        view = await store.read(GetResult(execution_id=execution_id))
        print(view.public_state, view.result.data.decode() if view.result else "")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "work.db"))

"""What an older version has stored is listed by namespace, too, once it was opened."""

from __future__ import annotations

from flowfabric.model.contracts.reads import ListExecutions, ListPartition, ListSteps, ReadInbox
from flowfabric.model.contracts.streams import PutStep
from flowfabric.model.ids import partition_in
from flowfabric.storage.valkey import ValkeyStore
from support.clock import ManualClock
from support.driver import Driver
from support.valkey import empty_server
from support.waiting import suspend


async def forget_lists(store: ValkeyStore) -> None:
    """Take away what an older version did not write."""
    names = [name async for page in store.client.pages() for name in page]
    for name in names:
        if name.startswith(b"ff:in:") or b":ids:" in name or name.endswith(b":heads"):
            await store.client.call("UNLINK", name)
    await store.client.call("HDEL", "ff:store", "lists")


async def test_older_data_is_put_into_the_lists_of_namespaces() -> None:
    async with empty_server() as server:
        url = f"valkey://127.0.0.1:{server.port}/1"
        store = await ValkeyStore.open(url, clock=ManualClock())
        ff = Driver(store, ManualClock())
        await ff.seed()
        task = await ff.running(namespace="team", tags=(("env", "prod"),))
        await ff.create()
        step = PutStep(
            execution_id=task.execution_id, fence=task.fence, step_name="a", result=b"123", encoding="json"
        )
        await store.apply(step)
        await suspend(ff, task)
        await forget_lists(store)
        assert (await store.read(ListExecutions(namespace="team"))).runs == ()
        await store.close()
        store = await ValkeyStore.open(url, clock=ManualClock())
        try:
            for more in ({}, {"lane_id": "default"}, {"tags": (("env", "prod"),)}):
                page = await store.read(ListExecutions(namespace="team", **more))
                assert [run.execution_id for run in page.runs] == [task.execution_id], more
            inbox = await store.read(ReadInbox(namespace="team"))
            assert [view.execution_id for view in inbox.waitpoints] == [task.execution_id]
            partition = partition_in(task.execution_id)
            ids = (await store.read(ListPartition(partition=partition, namespace="team"))).ids
            assert ids == (task.execution_id,)
            steps = (await store.read(ListSteps(execution_id=task.execution_id, max_bytes=100))).steps
            assert [(each.name, each.size, each.result) for each in steps] == [("a", 3, b"123")]
            assert not (await store.repair(fix=False)).wrong
        finally:
            await store.close()

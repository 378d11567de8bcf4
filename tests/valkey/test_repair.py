"""Indexes that do not follow from their records are found, told and mended, also while others work."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.model.operations.operate import SetTags
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.state import Public
from flowfabric.storage.valkey import ValkeyStore, keys
from flowfabric.storage.valkey.cluster.cluster import Cluster
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.storage.valkey.upkeep.inspect import everything
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.scenes import ALL, STAGES
from support.stores import STORES, half
from support.waiting import open_pending

SEEDS = range(12)
DAMAGE = {
    "claimable": ("ZREM", "ff:claim:default\0job\0", "{waiting}"),
    "score": ("ZINCRBY", "ff:claim:default\0job\0", 7, "{waiting}"),
    "queue": ("SREM", "ff:routes:default", "job\0"),
    "not claimable": ("ZADD", "ff:claim:default\0job\0", 5, "{running}"),
    "another queue": ("ZADD", "ff:claim:default\0other\0", 5, "{waiting}"),
    "due": ("ZADD", "ff:due", 5, "{running}"),
    "never due": ("ZREM", "ff:due", "{running}"),
    "gone, but due": ("ZADD", "ff:due", 5, "{gone}"),
    "state": ("ZREM", "ff:state:default\0waiting", "{waiting}"),
    "another state": ("ZADD", "ff:state:default\0failed", 1, "{waiting}"),
    "another place": ("ZADD", "ff:state:default\0waiting", 77, "{waiting}"),
    "lease": ("HDEL", "ff:leases:w1-a", "{running}"),
    "another claim": ("HSET", "ff:leases:w1-a", "{running}", "x"),
    "another holder": ("HSET", "ff:leases:w2-a", "{running}", "x"),
    "tag": ("ZREM", "ff:tag:a\0b", "{running}"),
    "another tag": ("ZADD", "ff:tag:a\0c", 1, "{running}"),
    "partition": ("ZREM", "{ids}", "{uuid}"),
    "another partition": ("ZADD", "ff:{fp:0}:ids", 0, "{spare}"),
    "tally": ("HINCRBY", "ff:tally", "default\0default\0\0waiting", 3),
    "tally of nothing": ("HINCRBY", "ff:tally", "default\0other\0\0failed", -2),
    "tally lost": ("DEL", "ff:tally"),
    "total": ("HINCRBY", "ff:total:default", "\0waiting", 3),
    "total of all": ("HINCRBY", "ff:total:", "\0failed", 3),
    "total lost": ("DEL", "ff:total:default"),
    "inbox of a namespace": ("DEL", "ff:in:default\0inbox"),
    "stray in the inbox of a namespace": ("ZADD", "ff:in:team\0inbox", 1, "{running}\0{spare}"),
    "list of a namespace": ("DEL", "ff:in:default\0any:waiting"),
    "tag of a namespace": ("DEL", "ff:in:default\0tag:a\0b"),
    "stray in a namespace": ("ZADD", "ff:in:team\0any:waiting", 1, "{waiting}"),
    "ids of a namespace": ("DEL", "{ids}:default"),
    "stray among the ids of a namespace": ("ZADD", "{ids}:team", 0, "{uuid}"),
    "inbox": ("DEL", "ff:inbox"),
    "inbox of nothing": ("ZADD", "ff:inbox", 5, "{gone}\0x"),
    "arrival of nothing": ("XADD", "ff:arrivals", "0-99", "id", "{gone}"),
}


async def held(store: ValkeyStore) -> dict[str, Any]:
    """Return everything, but for the order of the inbox and routes without work: both may be otherwise afterwards."""
    found: dict[str, Any] = await store.carry_out(everything())
    found["inbox"] = sorted(found.get("inbox", {}))
    found["tally"] = keys.tallied(found.get("tally", {}).items())
    for name in [name for name in found if name.startswith("total:")]:
        moves = ((b"\0\0" + field, n) for field, n in found[name].items())
        found[name] = {of: n for of, n in keys.tallied(moves).items() if n}
    for counter in ("inbox:position", "tick"):
        found.pop(counter, None)
    for name in [name for name in found if name.startswith("routes:")]:
        queues = {route: f"claim:{name.removeprefix('routes:')}\0{route.decode()}" for route in found[name]}
        found[name] = sorted(route for route, queue in queues.items() if queue in found)
    return {name: value for name, value in found.items() if value}


def store_of(ff: Driver) -> ValkeyStore:
    assert isinstance(ff.store, ValkeyStore)
    return ff.store


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
async def test_damage_is_found_and_mended(ff: Driver, damage: tuple[Any, ...]) -> None:
    store = store_of(ff)
    await ff.seed()
    task = await ff.running(tags=(("a", "b"),))
    await open_pending(ff, task)
    waiting = await ff.create()
    gone = ff.new_id()
    running = task.execution_id
    names = {
        "{waiting}": waiting,
        "{running}": running,
        "{gone}": gone,
        "{uuid}": running[-36:],
        "{ids}": f"ff:{running[:-37]}:ids",
        "{spare}": new_uuid(),
    }
    before = await held(store)
    dump = await store.dump()
    sent = [re.sub(r"\{[a-z]+\}", lambda found: names[found[0]], str(part)) for part in damage]
    await store.client.call(*sent)
    assert await held(store) != before, "the damage is done"

    looked = await store.repair(fix=False)
    assert looked.wrong
    assert not looked.fixed
    mended = await store.repair()
    assert mended.wrong == looked.wrong
    assert mended.fixed
    again = await store.repair()
    assert (again.checked, again.wrong, again.fixed) == (2, (), False)
    assert await held(store) == before
    assert await store.dump() == dump
    assert (await ff.claim_one()).execution_id == waiting


async def test_a_lost_arrival_becomes_the_last(ff: Driver) -> None:
    store = store_of(ff)
    first, second, third = [await ff.create(tags=(("a", "b"),)) for _ in range(3)]
    await store.client.call("XDEL", "ff:arrivals", "0-2")
    assert len((await store.repair(fix=False)).wrong) == 1
    assert len((await store.repair()).wrong) == 1
    assert (await store.repair()).wrong == ()
    questions = (
        ListExecutions(),
        ListExecutions(lane_id="default", states=(Public.WAITING,)),
        ListExecutions(tags=(("a", "b"),)),
    )
    for question in questions:
        page = await store.read(question)
        assert [run.execution_id for run in page.runs] == [second, third, first]
    assert len(await ff.claim(max_tasks=9)) == 3


async def test_a_record_that_cannot_be_read_is_told_and_left_alone(ff: Driver) -> None:
    store = store_of(ff)
    broken, sound = await ff.create(), await ff.create()
    await store.client.call("SET", f"ff:{broken}", b"\x92\xcf" + bytes(8) + b"\xc1")
    await store.client.call("ZREM", "ff:state:default\0waiting", sound)
    report = await store.repair()
    assert [line.split(": ", 1)[0] for line in report.wrong] == sorted([broken, sound])
    assert any("cannot be read" in line for line in report.wrong)
    assert await store.client.call("ZSCORE", "ff:state:default\0waiting", sound)
    assert await store.client.call("ZSCORE", "ff:state:default\0waiting", broken), (
        "nobody knows where it belongs"
    )


async def populate(ff: Driver, draw: random.Random) -> None:
    """Make executions in every state, in several lanes, with tags and waitpoints."""
    await ff.seed()
    for number, name in enumerate(draw.sample(ALL, len(ALL))):
        fields: dict[str, Any] = {
            "lane_id": draw.choice(["default", "slow"]),
            "namespace": draw.choice(["default", "mine"]),
            "priority": number,
            "tags": draw.choice([(), (("a", "b"),), (("a", "b"), ("c", "d"))]),
        }
        scene = await STAGES[name](ff, **fields)
        if name == "active" and scene.task is not None:
            await open_pending(ff, scene.task)
        if draw.random() < 0.2:
            await ff.store.apply(SetTags(execution_id=scene.execution_id, tags=(("a", "z"),)))


INDEX = re.compile(r"ff:(\{fp:\d+\}:)?(due|inbox|tally|(state|claim|tag|leases|routes):.*|ids)", re.DOTALL)


async def damage(client: Client | Cluster, draw: random.Random, ids: list[str]) -> None:
    """Delete, add or change one entry of one index."""
    names = [
        name.decode() async for page in client.pages() for name in page if INDEX.fullmatch(name.decode())
    ]
    name = draw.choice(names)
    kind = (await client.call("TYPE", name)).decode()
    if kind == "none":  # it was there a moment ago
        return
    verb = {"zset": "ZRANGE", "hash": "HKEYS", "set": "SMEMBERS"}[kind]
    members = await client.call(verb, name, *((0, -1) if kind == "zset" else ()))
    member = draw.choice(members) if members else b"x"
    if kind == "set":
        await client.call("SREM", name, member)
    elif name.endswith(":tally"):
        await client.call("HINCRBY", name, member, draw.choice([-3, -1, 1, 5]))
    elif kind == "hash":
        await client.call(*draw.choice([("HDEL", name, member), ("HSET", name, draw.choice(ids), "other")]))
    else:
        known = [("ZREM", name, member), ("ZADD", name, draw.randrange(99), draw.choice(ids))]
        if not name.endswith(":inbox"):
            known.append(("ZADD", name, draw.randrange(99), member))
        await client.call(*draw.choice(known))


@pytest.fixture(params=["valkey", "valkey-cluster"])
async def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Driver]:
    """A single server, and a cluster."""
    clock = ManualClock()
    async with STORES[request.param](tmp_path, clock, half) as store:
        yield Driver(store, clock)


@pytest.mark.parametrize("seed", SEEDS)
async def test_any_damage_is_mended(anywhere: Driver, seed: int) -> None:
    draw, ff = random.Random(seed), anywhere
    store = store_of(ff)
    await populate(ff, draw)
    before = await held(store)
    dump = await store.dump()
    assert (await store.repair()).wrong == ()
    ids = [*(key[0] for key in dump.records["execution"]), ff.new_id()]
    for _ in range(draw.randrange(1, 30)):
        await damage(store.client, draw, ids)
    await store.repair()
    assert await held(store) == before
    assert await store.dump() == dump
    assert (await store.repair(fix=False)).wrong == ()


async def work(ff: Driver, draw: random.Random) -> None:
    """Create, claim, tag, complete and fail for a while."""
    for number in range(60):
        await ff.create(namespace=draw.choice(["default", "mine"]), tags=(("a", str(number % 3)),))
        for task in await ff.claim(max_tasks=2):
            await ff.store.apply(SetTags(execution_id=task.execution_id, tags=(("a", "z"),)))
            await (ff.complete(task) if draw.random() < 0.7 else ff.fail(task))


async def test_nothing_is_wrong_while_others_work(anywhere: Driver) -> None:
    ff, repairs = anywhere, 0
    store = store_of(ff)
    await populate(ff, random.Random(1))
    working = asyncio.gather(*(work(ff, random.Random(number)) for number in range(4)))
    while not working.done():
        assert (await store.repair()).wrong == ()
        repairs += 1
    await working
    assert repairs
    assert (await store.repair(fix=False)).wrong == ()


async def test_damage_is_mended_while_others_work(anywhere: Driver) -> None:
    ff, draw, repairs = anywhere, random.Random(2), 0
    store = store_of(ff)
    await populate(ff, draw)
    ids = [key[0] for key in (await store.dump()).records["execution"]]
    working = asyncio.gather(*(work(ff, random.Random(number)) for number in range(4)))
    while not working.done():
        for _ in range(20):
            await damage(store.client, draw, ids)
        assert (await store.repair()).wrong
        assert (await store.repair()).wrong == ()
        repairs += 1
    await working
    assert repairs
    assert (await store.repair(fix=False)).wrong == ()

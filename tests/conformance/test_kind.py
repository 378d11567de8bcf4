"""Kinds that workers publish, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.limits import MAX_KIND_PAGE_BYTES, MAX_KINDS, MAX_KINDS_PER_LOOKUP
from flowfabric.model.operations.kind import (
    DeleteKind,
    FindKinds,
    GetKind,
    KindDeleted,
    ListKinds,
    Published,
    PublishKind,
    Unchanged,
)
from flowfabric.model.records import Kind
from support.driver import Driver
from support.waiting import refused

POLICY = '{"retry_policy":{"max_retries":3}}'
SCHEMA = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'


def greet(**more: Any) -> PublishKind:
    fields: dict[str, Any] = {
        "kind": "greet",
        "lane": "slow",
        "priority": 7,
        "tags": (("team", "web"),),
        "required_capabilities": ("gpu",),
        "fairness_key": "tenant-1",
        "fairness_weight": 5,
        "policy": POLICY,
        "input_schema": SCHEMA,
        "description": "Greet somebody.",
    }
    return PublishKind(**(fields | more))


async def names(ff: Driver, question: ListKinds) -> list[tuple[str, str]]:
    return [(kind.namespace, kind.kind) for kind in (await ff.store.read(question)).kinds]


async def test_a_kind_is_kept_as_it_was_published(ff: Driver) -> None:
    assert await ff.store.apply(greet(actor="worker-1")) == Published()
    kind = await ff.store.read(GetKind(kind="greet"))
    assert kind == Kind(
        1,
        "greet",
        "",
        "slow",
        7,
        (("team", "web"),),
        ("gpu",),
        "tenant-1",
        5,
        POLICY,
        SCHEMA,
        "Greet somebody.",
        ff.now,
        kind.published_by,
        greet().digest(),
    )
    assert kind.published_by


async def test_what_is_the_same_is_not_written_again(ff: Driver) -> None:
    await ff.store.apply(greet())
    first = await ff.store.read(GetKind(kind="greet"))
    ff.clock.advance(5)
    same = greet(
        input_schema='{"required":["name"], "type":"object","properties":{"name":{"type":"string"}}}'
    )
    assert await ff.store.apply(same) == Unchanged()
    assert await ff.store.read(GetKind(kind="greet")) == first
    assert await ff.store.apply(greet(lane="fast")) == Published()
    changed = await ff.store.read(GetKind(kind="greet"))
    assert (changed.lane, changed.published_at) == ("fast", ff.now)
    assert changed.digest != first.digest


async def test_the_kind_of_the_namespace_comes_first(ff: Driver) -> None:
    await ff.store.apply_many([greet(), greet(namespace="a", lane="own"), greet(kind="other", namespace="b")])
    assert (await ff.store.read(GetKind(kind="greet", namespace="a"))).lane == "own"
    assert (await ff.store.read(GetKind(kind="greet", namespace="b"))).lane == "slow"
    await refused(ff, GetKind(kind="other", namespace="a"), "kind_not_found")
    await refused(ff, GetKind(kind="other"), "kind_not_found")
    wanted = (("a", "greet"), ("b", "greet"), ("a", "other"), ("b", "other"))
    own, for_all, none, other = await ff.store.read(FindKinds(wanted=wanted))
    assert own is not None
    assert for_all is not None
    assert other is not None
    assert none is None
    assert (own.lane, own.policy, own.input_schema, own.description) == ("own", POLICY, "", "")
    assert (for_all.namespace, other.namespace) == ("", "b")
    await refused(ff, FindKinds(wanted=(("", "x"),) * (MAX_KINDS_PER_LOOKUP + 1)), "invalid_input")


async def test_a_deleted_kind_is_gone(ff: Driver) -> None:
    await ff.store.apply_many([greet(), greet(namespace="a")])
    assert await ff.store.apply(DeleteKind(kind="greet", namespace="a")) == KindDeleted()
    await refused(ff, DeleteKind(kind="greet", namespace="a"), "kind_not_found")
    assert (await ff.store.read(GetKind(kind="greet", namespace="a"))).namespace == ""
    assert await names(ff, ListKinds()) == [("", "greet")]
    await ff.store.apply(DeleteKind(kind="greet"))
    assert await names(ff, ListKinds()) == []
    assert await ff.store.apply(greet()) == Published()


async def test_kinds_are_listed_in_pages(ff: Driver) -> None:
    pairs = [("", "c"), ("a", "z"), ("b", "b"), ("", "d"), ("a", "a@2"), ("a", "a")]
    await ff.store.apply_many([greet(namespace=namespace, kind=kind) for namespace, kind in pairs])
    assert await names(ff, ListKinds()) == sorted(pairs)
    assert await names(ff, ListKinds(namespace="a")) == [
        ("", "c"),
        ("", "d"),
        ("a", "a"),
        ("a", "a@2"),
        ("a", "z"),
    ]
    assert await names(ff, ListKinds(namespace="")) == [("", "c"), ("", "d")]
    assert await names(ff, ListKinds(namespace="unknown")) == [("", "c"), ("", "d")]
    found: list[tuple[str, str]] = []
    question = ListKinds(limit=2)
    for _ in pairs:
        page = await ff.store.read(question)
        assert len(page.kinds) <= 2
        found += [(kind.namespace, kind.kind) for kind in page.kinds]
        if page.next is None:
            break
        question = ListKinds(limit=2, after=page.next)
    assert found == sorted(pairs)
    for wrong in ({"limit": 0}, {"limit": 1001}, {"after": ("", "")}, {"namespace": "\n"}):
        await refused(ff, ListKinds(**wrong), "invalid_input")


async def test_a_page_of_large_kinds_is_cut_short(ff: Driver) -> None:
    large = '{"title":"' + "x" * 65_000 + '"}'
    count = MAX_KIND_PAGE_BYTES // len(large) + 2
    await ff.store.apply_many([greet(kind=f"k{n:03}", input_schema=large) for n in range(count)])
    page = await ff.store.read(ListKinds())
    assert 0 < len(page.kinds) < count
    assert page.next == ("", page.kinds[-1].kind)
    rest = await ff.store.read(ListKinds(after=page.next))
    assert len(page.kinds) + len(rest.kinds) == count


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"kind": ""}, "kind"),
        ({"kind": "a\nb"}, "kind"),
        ({"namespace": "a\0"}, "namespace"),
        ({"lane": "a\tb"}, "lane"),
        ({"priority": -1}, "priority"),
        ({"priority": 9001}, "priority"),
        ({"fairness_weight": 0}, "fairness_weight"),
        ({"fairness_weight": 1001}, "fairness_weight"),
        ({"fairness_key": "x" * 257}, "fairness_key"),
        ({"description": "x" * 4097}, "description"),
        ({"input_schema": "[]"}, "input_schema"),
        ({"input_schema": "{"}, "input_schema"),
        ({"input_schema": '"' + "x" * 65_536 + '"'}, "input_schema"),
        ({"policy": "[]"}, "policy"),
        ({"policy": '{"retry_policy":{"max_retries":"x"}}'}, "policy"),
        ({"tags": (("Bad Key", "x"),)}, "tags"),
        ({"required_capabilities": ("a,b",)}, "required_capabilities"),
    ],
)
async def test_every_field_is_checked(ff: Driver, wrong: dict[str, Any], field: str) -> None:
    reply: Any
    (reply,) = await ff.store.apply_many([greet(**wrong)])
    assert reply.field == field, reply
    assert await names(ff, ListKinds()) == []


async def test_there_is_a_limit_in_each_namespace(ff: Driver) -> None:
    replies = await ff.store.apply_many([PublishKind(kind=f"k{n}") for n in range(MAX_KINDS + 1)])
    assert [reply for reply in replies[:-1] if reply != Published()] == []
    last: Any = replies[-1]
    assert (last.code, last.field) == ("invalid_input", "kind")
    assert await ff.store.apply(PublishKind(kind="k0", lane="other")) == Published()
    assert await ff.store.apply(PublishKind(kind="k0", namespace="a")) == Published()

"""The keys that sign waitpoint tokens."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.access_secret import ListKids, RotateSecret, SeedSecret
from flowfabric.model.tokens import AlreadySeeded, KidList, Noop, Rotated, Seeded
from support.driver import SECRET, Driver
from support.waiting import SATISFIED, refused, suspend, suspended

B, C = "bb" * 32, "cc" * 32


def seed(kid: str = "k1", secret: str = SECRET) -> SeedSecret:
    return SeedSecret(kid=kid, secret_hex=secret)


def rotate(kid: str, secret: str = B, grace_ms: Any = 1_000) -> RotateSecret:
    return RotateSecret(new_kid=kid, new_secret_hex=secret, grace_ms=grace_ms)


async def kids(ff: Driver) -> KidList:
    return await ff.store.read(ListKids())


async def test_an_empty_store_has_no_keys(ff: Driver) -> None:
    assert await kids(ff) == KidList(None, ())


async def test_seeding_is_idempotent(ff: Driver) -> None:
    assert await ff.store.apply(seed()) == Seeded("k1")
    assert await kids(ff) == KidList("k1", ())
    before = await ff.store.dump()
    assert await ff.store.apply(seed()) == AlreadySeeded("k1", same_secret=True)
    assert await ff.store.apply(seed(secret=B)) == AlreadySeeded("k1", same_secret=False)
    assert await ff.store.dump() == before


async def test_seeding_does_not_rotate(ff: Driver) -> None:
    await ff.store.apply(seed())
    assert "rotate" in (await refused(ff, seed("k2"), "invalid_input")).text


@pytest.mark.parametrize(
    ("kid", "secret", "code"),
    [
        ("", SECRET, "invalid_kid"),
        ("a:b", SECRET, "invalid_kid"),
        ("k", "", "invalid_secret_hex"),
        ("k", "abc", "invalid_secret_hex"),
        ("k", "zz" * 32, "invalid_secret_hex"),
    ],
)
async def test_keys_are_checked(ff: Driver, kid: str, secret: str, code: str) -> None:
    error = await refused(ff, seed(kid, secret), code)
    assert not secret or secret not in str(error)
    await refused(ff, rotate(kid, secret), code)


@pytest.mark.parametrize("secret", ["ab" * 31, "ab" * 33])
async def test_a_seed_has_32_bytes_and_a_rotation_any_number(ff: Driver, secret: str) -> None:
    await refused(ff, seed("k", secret), "invalid_secret_hex")
    assert await ff.store.apply(rotate("k", secret)) == Rotated(None, "k", 0)


@pytest.mark.parametrize("grace", [-1, MAX_INT + 1, "5", 1.5, True])
async def test_the_grace_is_checked(ff: Driver, grace: object) -> None:
    await ff.store.apply(seed())
    await refused(ff, rotate("k2", grace_ms=grace), "invalid_grace_ms")


async def test_rotating_makes_the_new_key_sign(ff: Driver) -> None:
    await ff.store.apply(seed())
    assert await ff.store.apply(rotate("k2", grace_ms=500)) == Rotated("k1", "k2", 0)
    assert await kids(ff) == KidList("k2", (("k1", ff.now + 500),))
    wait = await suspended(ff, seed=False)
    assert wait.waitpoint.waitpoint_token.startswith("k2:")


async def test_rotating_an_empty_store_installs_the_first_key(ff: Driver) -> None:
    assert await ff.store.apply(rotate("k1")) == Rotated(None, "k1", 0)
    assert await kids(ff) == KidList("k1", ())


async def test_rotating_to_the_current_key_does_nothing(ff: Driver) -> None:
    await ff.store.apply(seed())
    before = await ff.store.dump()
    assert await ff.store.apply(rotate("k1", SECRET)) == Noop("k1")
    assert await ff.store.dump() == before
    assert (await refused(ff, rotate("k1", B), "rotation_conflict")).details == ("k1",)


async def test_a_known_key_never_gets_another_secret(ff: Driver) -> None:
    await ff.store.apply(seed())
    await ff.store.apply(rotate("k2", B, 1_000))
    assert (await refused(ff, rotate("k1", C), "rotation_conflict")).details == ("k1",)


async def test_an_older_key_may_become_current_again(ff: Driver) -> None:
    await ff.store.apply(seed())
    wait = await suspended(ff, seed=False)
    await ff.store.apply(rotate("k2", B, 1_000))
    assert await ff.store.apply(rotate("k1", SECRET, 700)) == Rotated("k2", "k1", 0)
    assert await kids(ff) == KidList("k1", (("k2", ff.now + 700),))
    ff.clock.advance(5_000)
    assert await ff.store.apply(rotate("k3", C, 1_000)) == Rotated("k1", "k3", 1)
    assert await kids(ff) == KidList("k3", (("k1", ff.now + 1_000),))
    assert await wait.signal() == SATISFIED


async def test_the_list_shows_what_verifies_now(ff: Driver) -> None:
    await ff.store.apply(seed())
    await ff.store.apply(rotate("k2", B, 1_000))
    first = ff.now + 1_000
    ff.clock.advance(400)
    await ff.store.apply(rotate("k3", C, 2_000))
    assert await kids(ff) == KidList("k3", (("k1", first), ("k2", ff.now + 2_000)))
    ff.clock.advance(600)
    assert await kids(ff) == KidList("k3", (("k1", first), ("k2", first + 1_400)))
    ff.clock.advance(1)
    assert await kids(ff) == KidList("k3", (("k2", first + 1_400),))
    assert B not in repr(await kids(ff))


@pytest.mark.parametrize(("late", "removed"), [(0, 0), (1, 2)])
async def test_a_rotation_cleans_up_what_has_expired(ff: Driver, late: int, removed: int) -> None:
    await ff.store.apply(seed())
    await ff.store.apply(rotate("k2", B, 1_000))
    await ff.store.apply(rotate("k3", C, 1_000))
    ff.clock.advance(1_000 + late)
    rotated = await ff.store.apply(rotate("k4", "dd" * 32, 1_000))
    assert rotated == Rotated("k3", "k4", removed)


async def test_no_grace_ends_with_the_millisecond(ff: Driver) -> None:
    wait = await suspended(ff)
    await ff.store.apply(rotate("k2", grace_ms=0))
    assert await kids(ff) == KidList("k2", (("k1", ff.now),))
    ff.clock.advance(1)
    assert await kids(ff) == KidList("k2", ())
    await refused(ff, wait.delivery(), "token_expired")
    assert await (await suspend(ff, await ff.running())).signal() == SATISFIED

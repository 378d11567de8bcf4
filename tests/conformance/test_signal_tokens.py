"""Who may signal: a token opens one waitpoint of one execution, for as long as its key is trusted."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

import pytest

from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.model.operations.suspend_waitpoint import OpenWaitpoint
from support.driver import SECRET, Driver, new_uuid
from support.waiting import (
    BUFFERED,
    SATISFIED,
    Wait,
    accepted,
    all_of,
    by_name,
    delivery,
    held,
    open_pending,
    refused,
    suspend,
    suspended,
    tree,
)

OTHER = "ff" * 32


def rotation(kid: str, grace_ms: int = 1_000, secret: str = OTHER) -> RotateSecret:
    return RotateSecret(new_kid=kid, new_secret_hex=secret, grace_ms=grace_ms)


async def test_the_token_signs_execution_waitpoint_key_and_time(ff: Driver) -> None:
    wait = await suspended(ff)
    point = wait.waitpoint
    kid, digest = point.waitpoint_token.split(":")
    assert (kid, len(digest)) == ("k1", 64)
    message = f"{wait.execution_id}|{point.waitpoint_id}|k0|{ff.now}".encode()
    assert digest == hmac.new(bytes.fromhex(SECRET), message, hashlib.sha256).hexdigest()


async def test_a_known_token(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running(execution_id="{fp:24}:f47ac10b-58cc-4372-a567-0e02b2c3d479")
    waitpoint_id = "550e8400-e29b-41d4-a716-446655440000"
    opened = await open_pending(ff, task, "wpk:approval", waitpoint_id=waitpoint_id)
    digest = "fcf9a55edb2d553ea8ea2d8df708e02893a9d5980d920194e8e21fbd605ced99"
    assert (ff.now, opened.waitpoint_token) == (1_700_000_000_000, f"k1:{digest}")


async def test_an_unknown_execution_is_told(ff: Driver) -> None:
    wait = await suspended(ff)
    await refused(ff, delivery(ff.new_id(), wait.waitpoint), "execution_not_found")


async def test_an_unknown_waitpoint_is_not_told(ff: Driver) -> None:
    wait = await suspended(ff)
    await refused(ff, wait.delivery(waitpoint_id=new_uuid()), "invalid_token")
    await refused(ff, wait.delivery(waitpoint_id=new_uuid(), waitpoint_token=""), "invalid_token")


async def test_an_unknown_waitpoint_is_not_told_without_a_secret_either(ff: Driver) -> None:
    task = await ff.running()
    nowhere = OpenWaitpoint(new_uuid(), "k0", "k1:" + "0" * 64)
    await refused(ff, delivery(task.execution_id, nowhere), "invalid_token")


MALFORMED: list[tuple[str, Callable[[str], str], str]] = [
    ("none", lambda token: "", "missing_token"),
    ("no colon", lambda token: token.replace(":", ""), "invalid_token"),
    ("no key", lambda token: token[2:], "invalid_token"),
    ("no digest", lambda token: "k1:", "invalid_token"),
    ("short", lambda token: token[:-1], "invalid_token"),
    ("long", lambda token: token + "0", "invalid_token"),
    ("other digest", lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"), "invalid_token"),
    ("upper case", lambda token: "k1:" + token[3:].upper(), "invalid_token"),
    ("unknown key", lambda token: "k9:" + token[3:], "invalid_token"),
    ("no text", lambda token: "k1:" + "é" * 64, "invalid_token"),
]


@pytest.mark.parametrize(("spoil", "code"), [pytest.param(*row[1:], id=row[0]) for row in MALFORMED])
async def test_a_spoilt_token_opens_nothing(ff: Driver, spoil: Callable[[str], str], code: str) -> None:
    wait = await suspended(ff)
    token = spoil(wait.waitpoint.waitpoint_token)
    error = await refused(ff, wait.delivery(waitpoint_token=token), code)
    assert wait.waitpoint.waitpoint_token not in repr(error)
    assert await wait.vector() == held("waiting_for_signal")


async def test_the_token_of_another_execution_opens_nothing(ff: Driver) -> None:
    first = await suspended(ff)
    second = await suspend(ff, await ff.running())
    stolen = first.waitpoint
    await refused(ff, delivery(second.execution_id, stolen), "invalid_token")
    await refused(ff, second.delivery(waitpoint_token=stolen.waitpoint_token), "invalid_token")
    assert await first.vector() == await second.vector() == held("waiting_for_signal")


async def test_the_token_of_another_waitpoint_opens_nothing(ff: Driver) -> None:
    wait = await suspended(ff, tree(all_of(by_name("a", "x"), by_name("b", "x"))))
    token = wait.on("a").waitpoint_token
    await refused(ff, wait.delivery("x", "b", waitpoint_token=token), "invalid_token")


async def test_the_same_waitpoint_id_in_another_execution_is_another_waitpoint(ff: Driver) -> None:
    first = await suspended(ff)
    task = await ff.running()
    opened = await open_pending(ff, task, "k0", waitpoint_id=first.waitpoint.waitpoint_id)
    assert opened.waitpoint_token != first.waitpoint.waitpoint_token
    await refused(ff, delivery(task.execution_id, first.waitpoint), "invalid_token")
    assert await accepted(ff, delivery(task.execution_id, opened)) == BUFFERED
    assert await first.vector() == held("waiting_for_signal")


async def test_the_token_is_judged_before_the_state(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.signal()
    await refused(ff, wait.delivery(waitpoint_token=""), "missing_token")
    await refused(ff, wait.delivery(waitpoint_token="k1:" + "0" * 64), "invalid_token")
    await ff.complete(await ff.claim_one())
    await refused(ff, wait.delivery(waitpoint_token="k1:" + "0" * 64), "invalid_token")
    await refused(ff, wait.delivery(), "target_not_signalable")


async def _rotated(ff: Driver, grace_ms: int) -> Wait:
    wait = await suspended(ff)
    await ff.store.apply(rotation("k2", grace_ms))
    return wait


async def test_a_rotated_key_opens_until_its_grace_is_over(ff: Driver) -> None:
    wait = await _rotated(ff, 1_000)
    ff.clock.advance(1_000)
    assert await wait.signal() == SATISFIED


async def test_after_its_grace_a_rotated_key_is_expired(ff: Driver) -> None:
    wait = await _rotated(ff, 1_000)
    ff.clock.advance(1_001)
    await refused(ff, wait.delivery(), "token_expired")


async def test_a_key_that_was_cleaned_away_is_unknown(ff: Driver) -> None:
    wait = await _rotated(ff, 1_000)
    ff.clock.advance(1_001)
    await ff.store.apply(rotation("k3", secret="ee" * 32))
    await refused(ff, wait.delivery(), "invalid_token")


async def test_several_older_keys_open_at_once(ff: Driver) -> None:
    await ff.seed()
    waits = []
    for number in (2, 3, 4):
        waits.append(await suspend(ff, await ff.running()))
        await ff.store.apply(rotation(f"k{number}", 10_000, f"{number:064x}"))
        ff.clock.advance(1)
    newest = await suspend(ff, await ff.running())
    assert newest.waitpoint.waitpoint_token.startswith("k4:")
    for wait in (*waits, newest):
        assert await wait.signal() == SATISFIED


async def test_a_pending_waitpoint_keeps_the_key_that_signed_it(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await ff.store.apply(rotation("k2", 1_000))
    assert await accepted(ff, delivery(task.execution_id, opened)) == BUFFERED
    ff.clock.advance(1_001)
    await refused(ff, delivery(task.execution_id, opened), "token_expired")

"""Tokens of people and programs, on every store."""

from __future__ import annotations

import hashlib

import pytest

from flowfabric.model.limits import MAX_TOKENS
from flowfabric.model.operations.access import CreateToken, DeleteToken, ListTokens, SignLink
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.storage.minting import new_uuid
from support.driver import Driver
from support.waiting import refused, suspended


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def token(name: str = "ci", secret: str = "s", **more: object) -> CreateToken:
    fields: dict[str, object] = {
        "token_id": new_uuid(),
        "name": name,
        "role": "worker",
        "digest": digest(secret),
    }
    return CreateToken(**(fields | more))  # type: ignore[arg-type]


async def test_tokens_are_kept_until_they_are_deleted(ff: Driver) -> None:
    first = await ff.store.apply(token("one", namespace="tenant", expires_at=ff.now + 5, actor="admin"))
    ff.clock.advance(1)
    second = await ff.store.apply(token("two"))
    assert await ff.store.read(ListTokens()) == (first, second)
    assert (first.created_by, first.namespace, first.created_at) == ("admin", "tenant", ff.now - 1)
    assert (await ff.store.dump()).records["token"] == {
        (first.token_id,): first,
        (second.token_id,): second,
    }
    assert await ff.store.apply(DeleteToken(token_id=first.token_id)) == first
    assert await ff.store.read(ListTokens()) == (second,)
    await refused(ff, DeleteToken(token_id=first.token_id), "not_found")


async def test_a_repeat_creates_nothing_and_an_id_is_not_reused(ff: Driver) -> None:
    command = token()
    first = await ff.store.apply(command)
    assert await ff.store.apply(command) == first
    await refused(ff, token(secret="other", token_id=command.token_id), "invalid_input")
    assert len(await ff.store.read(ListTokens())) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"digest": "plain text"},
        {"token_id": "x"},
        {"name": ""},
        {"role": ""},
        {"expires_at": -1},
        {"namespace": "\n"},
    ],
)
async def test_fields_are_checked(ff: Driver, wrong: dict[str, object]) -> None:
    await refused(ff, token(**wrong), "invalid_input")  # type: ignore[arg-type]


async def test_there_is_a_limit(ff: Driver) -> None:
    replies = await ff.store.apply_many([token(secret=str(n)) for n in range(MAX_TOKENS + 1)])
    assert len(await ff.store.read(ListTokens())) == MAX_TOKENS
    assert sum(isinstance(reply, Exception) for reply in replies) == 1


def test_digests_are_not_shown() -> None:
    assert digest("s") not in repr(token())


async def test_a_signature_is_about_one_waitpoint_and_one_text(ff: Driver) -> None:
    wait = await suspended(ff)
    (execution_id,) = [key[0] for key in (await ff.store.dump()).records["execution"]]
    waitpoint_id = wait.waitpoint.waitpoint_id

    async def signature(text: str, kid: str = "") -> str:
        question = SignLink(execution_id=execution_id, waitpoint_id=waitpoint_id, text=text, kid=kid)
        signed = await ff.store.read(question)
        assert (signed.state, signed.signature in repr(signed)) == ("active", False)
        return signed.signature

    first = await signature("a")
    assert first == await signature("a", "k1") != await signature("b")
    assert first not in wait.waitpoint.waitpoint_token
    await ff.store.apply(RotateSecret(new_kid="k2", new_secret_hex="cd" * 32, grace_ms=5))
    assert first == await signature("a", "k1") != await signature("a")
    ff.clock.advance(6)
    missing = SignLink(execution_id=execution_id, waitpoint_id=new_uuid(), text="a")
    await refused(ff, missing, "waitpoint_not_found")
    for kid, code in (("k1", "token_expired"), ("k9", "invalid_token")):
        asked = SignLink(execution_id=execution_id, waitpoint_id=waitpoint_id, text="a", kid=kid)
        await refused(ff, asked, code)

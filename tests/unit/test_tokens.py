"""Waitpoint tokens and the keys that sign them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model import tokens
from flowfabric.model.errors import BY_CODE, FlowFabricError, InvalidInput
from flowfabric.model.limits import MAX_INT
from flowfabric.model.redaction import redact
from flowfabric.model.tokens import AlreadySeeded, Key, KeyRing, KidList, Noop, Rotated, Seeded

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "00112233445566778899aabbccddeeff" * 2
OTHER = "ab" * 32
THIRD = "cd" * 32
EXECUTION = "{fp:24}:f47ac10b-58cc-4372-a567-0e02b2c3d479"
WAITPOINT = "550e8400-e29b-41d4-a716-446655440000"
KEY = "wpk:approval"
CREATED = 1_700_000_000_000
BOUND = (EXECUTION, WAITPOINT, KEY, CREATED)
NOW = CREATED + 1_000
TOKEN = "k1:fcf9a55edb2d553ea8ea2d8df708e02893a9d5980d920194e8e21fbd605ced99"
DIGEST = TOKEN.removeprefix("k1:")
RING = KeyRing(current_kid="k1", keys=(Key("k1", SECRET),))


def code_of(call: Callable[..., object], *args: object) -> str:
    with pytest.raises(FlowFabricError) as caught:
        call(*args)
    shown = f"{caught.value} {caught.value!r} {caught.value.details}"
    assert not any(secret in shown for secret in (SECRET, OTHER, THIRD, DIGEST))
    return caught.value.code


def verify(ring: KeyRing | None, token: str, now: int = NOW) -> None:
    tokens.verify(ring, token, *BOUND, now)


def test_vector() -> None:
    assert tokens.mint(RING, *BOUND) == TOKEN
    verify(RING, TOKEN)


def test_minting_needs_a_usable_current_key() -> None:
    for ring, code in (
        (None, "invalid_keys_missing_hmac"),
        (KeyRing(), "hmac_secret_not_initialized"),
        (KeyRing(keys=(Key("k1", SECRET),)), "hmac_secret_not_initialized"),
        (KeyRing(current_kid="k1"), "hmac_secret_not_initialized"),
        (KeyRing(current_kid="k1", keys=(Key("k1", ""),)), "hmac_secret_not_initialized"),
        (KeyRing(current_kid="k1", keys=(Key("k1", "abc"),)), "invalid_secret"),
        (KeyRing(current_kid="k1", keys=(Key("k1", "ab cd"),)), "invalid_secret"),
    ):
        assert code_of(tokens.mint, ring, *BOUND) == code


@pytest.mark.parametrize(
    "bound",
    [
        ("{fp:24}:" + WAITPOINT, WAITPOINT, KEY, CREATED),
        (EXECUTION, EXECUTION[-36:], KEY, CREATED),
        (EXECUTION, WAITPOINT, "wpk:other", CREATED),
        (EXECUTION, WAITPOINT, KEY, CREATED + 1),
    ],
)
def test_a_token_opens_one_waitpoint_of_one_execution(bound: tuple[str, str, str, int]) -> None:
    assert code_of(tokens.verify, RING, TOKEN, *bound, NOW) == "invalid_token"


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("", "missing_token"),
        ("k1", "invalid_token"),
        (":", "invalid_token"),
        ("k1:", "invalid_token"),
        (f":{DIGEST}", "invalid_token"),
        (DIGEST, "invalid_token"),
        (TOKEN[:-1], "invalid_token"),
        (TOKEN + "0", "invalid_token"),
        (TOKEN + "\n", "invalid_token"),
        (f"k1:{DIGEST.upper()}", "invalid_token"),
        (f"K1:{DIGEST}", "invalid_token"),
        (f"k2:{DIGEST}", "invalid_token"),
        (f"k1:{'0' * 64}", "invalid_token"),
        (f"k1:{'é' * 64}", "invalid_token"),
        (f"k1:{DIGEST[:-1]}\ud800", "invalid_token"),
        ("k1:5dcce6afe4883fdfd7f8bc73ab83c88ecb70a701", "invalid_token"),
        ("k1:6b9ea2a277795d8ba7b1cf9d51cceac5672ddabab102372bb6702b6bda4344fe", "invalid_token"),
    ],
)
def test_refused_tokens(token: str, code: str) -> None:
    assert code_of(verify, RING, token) == code


def test_order_of_refusals() -> None:
    assert code_of(verify, None, "") == "invalid_keys_missing_hmac"
    assert code_of(verify, KeyRing(), "") == "missing_token"
    assert code_of(verify, KeyRing(), "k1") == "invalid_token"
    assert code_of(verify, KeyRing(), "k1:short") == "invalid_token"
    assert code_of(verify, KeyRing(), TOKEN) == "hmac_secret_not_initialized"
    assert code_of(verify, KeyRing(keys=RING.keys), TOKEN) == "hmac_secret_not_initialized"
    assert code_of(verify, KeyRing(current_kid="k1"), TOKEN) == "hmac_secret_not_initialized"
    broken = KeyRing(current_kid="k2", keys=(Key("k2", OTHER), Key("k1", "xyz", NOW - 1)))
    assert code_of(verify, broken, TOKEN) == "token_expired"
    assert code_of(verify, broken, TOKEN, NOW - 1) == "invalid_secret"


@pytest.mark.parametrize(
    ("expires_at", "accepted"), [(NOW + 1, True), (NOW, True), (NOW - 1, False), (0, False), (-1, False)]
)
def test_grace_fails_closed(expires_at: int, accepted: bool) -> None:
    ring = KeyRing(current_kid="k2", keys=(Key("k2", OTHER), Key("k1", SECRET, expires_at)))
    if accepted:
        verify(ring, TOKEN)
    else:
        assert code_of(verify, ring, TOKEN) == "token_expired"


@given(st.text(st.characters(), max_size=80))
def test_no_text_breaks_verification(token: str) -> None:
    assert code_of(verify, RING, token) in {"missing_token", "invalid_token"}
    assert code_of(verify, RING, f"k1:{token[:64]:*<64}") == "invalid_token"


def test_seed() -> None:
    ring, outcome = tokens.seed(KeyRing(), "k1", SECRET.upper())
    assert (ring, outcome) == (RING, Seeded("k1"))
    assert tokens.seed(ring, "k1", SECRET) == (ring, AlreadySeeded("k1", same_secret=True))
    assert tokens.seed(ring, "k1", SECRET.upper()) == (ring, AlreadySeeded("k1", same_secret=True))
    assert tokens.seed(ring, "k1", OTHER) == (ring, AlreadySeeded("k1", same_secret=False))
    with pytest.raises(InvalidInput, match="rotate"):
        tokens.seed(ring, "k2", OTHER)


def test_seed_repairs_a_current_key_without_a_secret() -> None:
    for broken in (KeyRing(current_kid="k1"), KeyRing(current_kid="k1", keys=(Key("k1", ""),))):
        assert tokens.seed(broken, "k1", SECRET) == (RING, Seeded("k1"))


def test_seed_does_not_overwrite_a_known_key() -> None:
    ring = KeyRing(keys=(Key("k1", SECRET, NOW),))
    assert tokens.seed(ring, "k1", SECRET) == (RING, Seeded("k1"))
    assert code_of(tokens.seed, ring, "k1", OTHER) == "rotation_conflict"


@pytest.mark.parametrize("kid", ["", "a:b", ":", "a\n", "k" * 257, "\ud800"])
def test_refused_kids(kid: str) -> None:
    assert code_of(tokens.seed, KeyRing(), kid, SECRET) == "invalid_kid"
    assert code_of(tokens.rotate, RING, kid, "", -1, NOW) == "invalid_kid"


@pytest.mark.parametrize("secret", ["", "a", "abc", "zz", "ab cd", "ab\n", " ab", "0xab", "éé", "a" * 4098])
def test_refused_secrets(secret: str) -> None:
    assert code_of(tokens.seed, KeyRing(), "k1", secret) == "invalid_secret_hex"
    assert code_of(tokens.rotate, RING, "k2", secret, -1, NOW) == "invalid_secret_hex"


def test_only_a_seed_wants_exactly_64_digits() -> None:
    for secret in ("ab", SECRET + "ab", SECRET[:-2]):
        assert code_of(tokens.seed, KeyRing(), "k1", secret) == "invalid_secret_hex"
        tokens.rotate(RING, "k2", secret, 0, NOW)


@pytest.mark.parametrize("grace", [-1, MAX_INT + 1, 1.0, "1", True, None])
def test_refused_graces(grace: Any) -> None:
    assert code_of(tokens.rotate, RING, "k2", OTHER, grace, NOW) == "invalid_grace_ms"


def test_rotation_keeps_the_old_key_for_its_grace() -> None:
    ring, outcome = tokens.rotate(RING, "k2", OTHER, 100, NOW)
    assert outcome == Rotated("k1", "k2", 0)
    assert (ring.current_kid, ring.previous_kid, ring.previous_expires_at) == ("k2", "k1", NOW + 100)
    assert ring.find("k2") == Key("k2", OTHER)
    assert tokens.mint(ring, *BOUND).startswith("k2:")
    verify(ring, TOKEN, NOW + 100)
    assert code_of(verify, ring, TOKEN, NOW + 101) == "token_expired"
    assert tokens.list_kids(ring, NOW + 100) == KidList("k2", (("k1", NOW + 100),))
    assert tokens.list_kids(ring, NOW + 101) == KidList("k2")


def test_several_older_keys_verify_at_once_until_their_own_end() -> None:
    ring, _ = tokens.rotate(RING, "k2", OTHER, 1_000, NOW)
    second = tokens.mint(ring, *BOUND)
    ring, _ = tokens.rotate(ring, "k3", THIRD, 10, NOW + 1)
    verify(ring, TOKEN, NOW + 1_000)
    verify(ring, second, NOW + 11)
    assert code_of(verify, ring, second, NOW + 12) == "token_expired"
    ring, outcome = tokens.rotate(ring, "k4", "ef" * 16, 0, NOW + 12)
    assert outcome == Rotated("k3", "k4", 1)
    assert code_of(verify, ring, second, NOW + 12) == "invalid_token"
    verify(ring, TOKEN, NOW + 12)


def test_first_rotation_needs_no_seed() -> None:
    ring, outcome = tokens.rotate(KeyRing(), "k1", SECRET, 5, NOW)
    assert (ring, outcome) == (RING, Rotated(None, "k1", 0))


def test_rotating_to_the_current_key() -> None:
    assert tokens.rotate(RING, "k1", SECRET.upper(), 0, NOW) == (RING, Noop("k1"))
    assert tokens.rotate(KeyRing(current_kid="k1"), "k1", SECRET, 0, NOW) == (RING, Noop("k1"))
    with pytest.raises(FlowFabricError) as caught:
        tokens.rotate(RING, "k1", OTHER, 0, NOW)
    assert (caught.value.code, caught.value.details) == ("rotation_conflict", ("k1",))


def test_a_known_kid_keeps_its_secret_even_after_its_grace() -> None:
    ring, _ = tokens.rotate(RING, "k2", OTHER, 10, NOW)
    for now in (NOW, NOW + 10, NOW + 1_000):
        assert code_of(tokens.rotate, ring, "k1", THIRD, 0, now) == "rotation_conflict"


def test_an_older_key_may_become_current_again_without_an_expiry() -> None:
    ring, _ = tokens.rotate(RING, "k2", OTHER, 10, NOW)
    ring, outcome = tokens.rotate(ring, "k1", SECRET, 10_000, NOW + 1_000)
    assert outcome == Rotated("k2", "k1", 0)
    assert ring.find("k1") == Key("k1", SECRET)
    verify(ring, TOKEN, NOW + 10**9)
    # The next rotation gives it a fresh grace instead of cleaning it up by its old one.
    ring, outcome = tokens.rotate(ring, "k3", THIRD, 10, NOW + 2_000)
    assert outcome == Rotated("k1", "k3", 0)
    verify(ring, TOKEN, NOW + 2_010)


def test_clean_up_removes_what_can_never_verify() -> None:
    keys = (
        Key("k1", SECRET),
        Key("a", OTHER, 0),
        Key("b", OTHER, -5),
        Key("c", OTHER, NOW - 1),
        Key("d", OTHER, NOW),
    )
    ring, outcome = tokens.rotate(KeyRing(current_kid="k1", keys=keys), "k2", THIRD, 0, NOW)
    assert outcome == Rotated("k1", "k2", 3)
    assert {key.kid for key in ring.keys} == {"k1", "d", "k2"}


def test_a_long_grace_saturates() -> None:
    ring, _ = tokens.rotate(RING, "k2", OTHER, MAX_INT, NOW)
    assert ring.previous_expires_at == MAX_INT
    verify(ring, TOKEN, MAX_INT)


def test_list_of_an_empty_ring() -> None:
    assert tokens.list_kids(KeyRing(), NOW) == KidList(None, ())


RotationConflict = BY_CODE["rotation_conflict"]
SECRETS = {kid: f"{n:064x}" for n, kid in enumerate("abcd")}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 50), st.integers(0, 40), st.booleans())))
def test_rotations_never_break_what_is_listed(steps: list[tuple[str, int, int, bool]]) -> None:
    ring, now, minted = KeyRing(), 1, dict[str, str]()
    for kid, grace, elapsed, honest in steps:
        now += elapsed
        with contextlib.suppress(RotationConflict):
            ring, _ = tokens.rotate(ring, kid, SECRETS[kid] if honest else OTHER, grace, now)
        if not ring.current_kid:
            continue
        assert [key.kid for key in ring.keys if key.expires_at == 0] == [ring.current_kid]
        assert len({key.kid for key in ring.keys}) == len(ring.keys)
        # A name that was forgotten may come back with another secret, so only living tokens are held on to.
        minted[ring.current_kid] = tokens.mint(ring, *BOUND)
        for listed in (ring.current_kid, *(kid for kid, _ in tokens.list_kids(ring, now).verifying)):
            verify(ring, minted[listed], now)


def test_secrets_are_never_shown() -> None:
    shown = [
        repr(RING),
        str(RING),
        repr(RING.keys),
        f"{RING.keys[0]}",
        repr(list(RING.keys[0].__rich_repr__())),
    ]
    assert not any(SECRET in text or SECRET[:8] in text for text in shown)
    assert "k1" in shown[0]


def test_keys_are_stored_as_arrays_with_the_version_first() -> None:
    encoded = msgspec.json.encode(RING)
    assert encoded == f'[1,"k1",[["k1","{SECRET}",0]],"",0]'.encode()
    assert msgspec.json.decode(encoded, type=KeyRing) == RING


def test_outcomes_are_tagged() -> None:
    assert msgspec.to_builtins(Noop("k1")) == {"type": "Noop", "kid": "k1"}
    outcome = msgspec.convert(
        {"type": "Rotated", "previous_kid": None, "new_kid": "k", "gc_count": 0}, Rotated | Noop
    )
    assert outcome == Rotated(None, "k", 0)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (TOKEN, "k1:<REDACTED:len=64>"),
        ("k1:abc", "k1:<REDACTED:len=3>"),
        ("k1:a:b", "k1:<REDACTED:len=3>"),
        ("", "<REDACTED:malformed>"),
        (DIGEST, "<REDACTED:malformed>"),
        (f":{DIGEST}", "<REDACTED:malformed>"),
        (f"a\nb:{DIGEST}", "<REDACTED:malformed>"),
        (f"{'k' * 257}:{DIGEST}", "<REDACTED:malformed>"),
        (f"\ud800:{DIGEST}", "<REDACTED:malformed>"),
    ],
)
def test_redacted(token: str, shown: str) -> None:
    assert redact(token) == shown


def test_fingerprint() -> None:
    assert tokens.fingerprint(TOKEN) == ("k1", "fcf9a55edb2d553e")
    for token in ("", "k1", "k1:abc", DIGEST, f":{DIGEST}"):
        assert tokens.fingerprint(token) == ("", "")

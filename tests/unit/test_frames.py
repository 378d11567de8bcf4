from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model.frames import FRAME_MODES, frame_mode, keep_entries, next_rate, normalise_bounds


def test_modes() -> None:
    assert [frame_mode(mode) for mode in FRAME_MODES] == ["durable", "summary", "best_effort"]
    assert frame_mode("") == frame_mode("a newer one") == "durable"


@pytest.mark.parametrize(
    ("sent", "used"),
    [
        ((0, 0, 0.0), (64, 16_384, 0.2)),
        ((-1, -1, -0.1), (64, 16_384, 0.2)),
        ((10, 5, 1.0), (10, 10, 1.0)),
        ((0, 5, 1.01), (64, 64, 0.2)),
        ((20_000, 0, math.nan), (20_000, 20_000, 0.2)),
        ((1, 2, 0.5), (1, 2, 0.5)),
    ],
)
def test_bounds(sent: tuple[int, int, float], used: tuple[int, int, float]) -> None:
    assert normalise_bounds(*sent) == used


def test_first_and_second_frame() -> None:
    first = next_rate(0.0, 0, 1_000, 5_000, 64, 0.2)
    assert first == pytest.approx(6.4)
    assert keep_entries(first, 5_000, 64, 16_384) == 64
    second = next_rate(first, 1_000, 1_011, 5_000, 64, 0.2)
    assert second == pytest.approx(23.30, abs=0.005)
    assert keep_entries(second, 5_000, 64, 16_384) == 234


def test_ceiling_and_odd_times() -> None:
    assert keep_entries(1e9, 5_000, 64, 16_384) == 16_384
    assert next_rate(5.0, 2_000, 1_000, 0, 64, 1.0) == pytest.approx(1_000.0)
    assert next_rate(0.0, 0, 0, 0, 64, 0.2) == pytest.approx(32_000.0)


@given(
    st.integers(0, 2**53 - 1),
    st.integers(1, 2**53 - 1),
    st.integers(1, 2**53 - 1),
    st.lists(st.integers(0, 10**6), max_size=20),
)
def test_kept_frames_stay_within_bounds(ttl_ms: int, floor: int, ceiling: int, gaps: list[int]) -> None:
    floor, ceiling, alpha = normalise_bounds(floor, ceiling, 0.2)
    rate, last, now = 0.0, 0, 1
    for gap in gaps:
        now += gap
        rate, last = next_rate(rate, last, now, ttl_ms, floor, alpha), now
        assert floor <= keep_entries(rate, ttl_ms, floor, ceiling) <= ceiling

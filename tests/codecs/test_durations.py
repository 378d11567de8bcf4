"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowfabric.codecs import Duration, millis, seconds
from flowfabric.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0),
        (2, 2_000),
        (0.25, 250),
        ("500ms", 500),
        ("30s", 30_000),
        ("2m", 120_000),
        ("1.5h", 5_400_000),
        ("1h30m", 5_400_000),
        ("1d", 86_400_000),
        (" 1w ", 604_800_000),
        (timedelta(minutes=1), 60_000),
    ],
)
def test_every_form_means_milliseconds(written: Duration, meant: int) -> None:
    assert millis(written) == meant
    assert seconds(written) == meant / 1_000


@pytest.mark.parametrize(
    "written", ["", "5", "s", "5 s", "-1s", "1h-1m", "1x", "٣s", -1, timedelta(seconds=-1), True, None, 1e300]
)
def test_what_is_no_duration_is_refused_by_name(written: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        millis(written, "timeout")
    assert refused.value.field == "timeout"
    assert repr(written) in refused.value.text


@pytest.mark.parametrize("written", [float("nan"), float("inf")])
def test_endless_durations_are_refused(written: float) -> None:
    with pytest.raises(InvalidInput):
        millis(written)

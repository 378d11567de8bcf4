"""Errors travel between processes as what they are."""

from __future__ import annotations

import pickle

import pytest

from flowfabric.model.errors import BY_CODE, FlowFabricError, from_code


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_an_error_survives_a_journey(code: str) -> None:
    error = from_code(code, "as it was", "field", ("one", "two"))
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is BY_CODE[code]
    assert arrived == error
    assert hash(arrived) == hash(error)
    assert (str(arrived), arrived.details) == ("field: as it was", ("one", "two"))


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_error_says_what_happened(code: str) -> None:
    error = from_code(code)
    assert isinstance(error, FlowFabricError)
    assert error.code == code
    assert str(error) == error.message
    assert error != from_code(code, "something else")

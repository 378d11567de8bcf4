"""All exceptions are found under one name."""

from __future__ import annotations

import inspect
import pickle

import pytest

import flowfabric
from flowfabric import errors
from flowfabric.app import errors as of_apps
from flowfabric.errors import FlowFabricError, StaleLease, TaskFailed, WaitpointClosed
from flowfabric.model import errors as of_models
from flowfabric.worker import external_signals, faults, layers


@pytest.mark.parametrize("module", [of_models, of_apps, faults, external_signals, layers])
def test_every_public_exception_is_there(module: object) -> None:
    own = [
        (name, kind)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, BaseException) and name[0] != "_"
    ]
    unknown = {
        "InvalidArguments",
        "HandlerSuspended",
    }  # between the runtime and its handlers, and seen by nobody else
    assert [
        name for name, kind in own if getattr(errors, name, None) is not kind and name not in unknown
    ] == []
    assert own


def test_every_code_has_a_class() -> None:
    assert {kind.code for kind in of_models.BY_CODE.values()} == of_models.BY_CODE.keys()
    assert all(getattr(errors, kind.__name__) is kind for kind in of_models.BY_CODE.values())
    assert (StaleLease.code, WaitpointClosed.code) == ("stale_lease", "waitpoint_closed")
    assert isinstance(pickle.loads(pickle.dumps(StaleLease("gone"))), StaleLease)
    assert issubclass(StaleLease, FlowFabricError)


def test_what_the_package_shows_is_the_same() -> None:
    assert flowfabric.errors is errors
    assert flowfabric.TaskFailed is TaskFailed
    assert not hasattr(errors, "NoSuchError")

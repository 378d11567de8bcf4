"""Durable execution for Python: leases, retries, signals, streams and steps, on a SQLite file for now.

Open a store, send it commands, ask it questions, and run an engine beside it::

    store = await open_store("work.db")
    async with Engine(store):
        await store.apply(CreateExecution(...))

Commands and questions are the classes of `flowfabric.model.contracts`.
"""

from flowfabric.client import HttpClient
from flowfabric.engine import Engine
from flowfabric.model import errors
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage import open_store
from flowfabric.storage.sqlite import SqliteStore

__version__ = "0.1.0"

__all__ = ["Engine", "FlowFabricError", "HttpClient", "SqliteStore", "__version__", "errors", "open_store"]

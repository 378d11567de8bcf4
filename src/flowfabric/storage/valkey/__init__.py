"""The store on Valkey: the same machine, in Lua, inside the server."""

from flowfabric.storage.valkey.store import ValkeyStore

__all__ = ["ValkeyStore"]

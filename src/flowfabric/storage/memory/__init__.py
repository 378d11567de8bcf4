"""The bare machine in memory."""

from flowfabric.storage.memory.store import MemoryStore

__all__ = ["MemoryStore"]

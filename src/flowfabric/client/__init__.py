"""The engine over HTTP, for clients and workers that do not reach its store."""

from flowfabric.client.client import HttpClient
from flowfabric.client.transport import Limits

__all__ = ["HttpClient", "Limits"]

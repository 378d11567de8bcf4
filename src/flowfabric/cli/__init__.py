"""The command line: `ff`."""

from flowfabric.cli.main import main

__all__ = ["main"]

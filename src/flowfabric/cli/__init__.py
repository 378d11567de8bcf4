"""The `ff` command line.

`ff submit` is in `commands/submit.py`, and so on for every command. `support` holds what several commands share;
`dev`, `doctor` and `bench` hold the parts of the three larger commands.
"""

from flowfabric.cli.main import main

__all__ = ["main"]

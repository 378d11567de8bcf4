"""Run `ff` as `python -m flowfabric.cli`, where `ff` is not on the path."""

import sys

from flowfabric.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

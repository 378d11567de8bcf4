"""The entry point of long campaigns."""

import sys

from support.simulation.soak import main

if __name__ == "__main__":
    sys.exit(main())

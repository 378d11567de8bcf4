"""Engine tests run on every store that the suites know."""

from __future__ import annotations

from conformance.conftest import ff, store_name

__all__ = ["ff", "store_name"]

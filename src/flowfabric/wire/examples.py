"""Values that the examples of several routes share."""

from __future__ import annotations

from typing import Final

from flowfabric.wire.fields import EXECUTION_ID as ID

__all__ = ["ATTEMPT", "FENCE", "ID", "LEASE", "NOW", "WAITPOINT", "WORKER"]

LEASE: Final = "5d0c2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"
ATTEMPT: Final = "9a0c2a52-5f0e-4c41-9a7d-2f1f6f1f9a11"
WAITPOINT: Final = "0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"
FENCE: Final = {"lease_id": LEASE, "lease_epoch": 1, "attempt_id": ATTEMPT}
WORKER: Final = {"worker_id": "worker-1", "worker_instance_id": "worker-1-a"}
NOW: Final = 1_760_000_000_000

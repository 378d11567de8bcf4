"""Test tools for users: a lab with an app in memory, a controllable clock, workers that crash, and assertions.

::

    from flowfabric.testing import Lab

    async def test_a_review_is_approved() -> None:
        async with Lab(app) as lab:
            run = await lab.submit(review, "text")
            await lab.approve(run)
            assert await lab.result(run) is True
"""

from flowfabric.testing.clock import Clock
from flowfabric.testing.driver import StillRunning
from flowfabric.testing.lab import Lab
from flowfabric.testing.sync import SyncClock, SyncLab

__all__ = ["Clock", "Lab", "StillRunning", "SyncClock", "SyncLab"]

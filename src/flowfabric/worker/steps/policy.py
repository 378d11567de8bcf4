"""Retries and timeouts of single steps: several tries within one attempt, while the lease is held."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from flowfabric.model.errors import invalid
from flowfabric.model.policy import Policy, backoff_ms, may_retry, parse_policy
from flowfabric.worker.execution.failures import category_of, inside, reason_of, traceback_of
from flowfabric.worker.execution.threads import Interrupt, in_thread
from flowfabric.worker.faults import DeadlinePassed, Interrupted, Retry, StepTimeout
from flowfabric.worker.options import Options

Log = logging.LoggerAdapter[logging.Logger]
OF_STEPS: Final = ("retries", "backoff", "retry_on", "timeout")
"""The options that apply to a step."""


class StepTimer:
    """Waits in real time for the backoffs and timeouts of steps; a lab uses its own clock instead."""

    async def back_off(self, seconds: float) -> None:
        """Wait before the next try."""
        await asyncio.sleep(seconds)

    async def time_out(self, seconds: float) -> None:
        """Wait until a try times out."""
        await asyncio.sleep(seconds)

    def chance(self) -> float:
        """Return the random jitter of a backoff, from 0 to 1."""
        return random.random()  # noqa: S311 - it spreads load and guards nothing


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """How often a step is tried, how long a try may take, and how long to wait between tries."""

    policy: Policy

    @classmethod
    def of(cls, options: Options) -> StepPolicy:
        """Return the policy of some options; raise `InvalidInput` for options of submissions."""
        for each in fields(options):
            if each.name not in OF_STEPS and getattr(options, each.name) is not None:
                raise invalid(each.name, f"is an option of submissions; a step takes {', '.join(OF_STEPS)}")
        return cls(parse_policy(options.policy() or b"{}"))

    async def run(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        log: Log,
        timer: StepTimer,
    ) -> Any:
        """Call the function until it returns or no try is left; raise the last error."""
        for failed in itertools.count():
            try:
                return await self._try(name, fn, args, kwargs, timer)
            except Exception as error:
                delay = self._delay_ms(error, failed, timer)
                self._log(name, failed, error, delay, log)
                if delay is None:
                    raise
            await timer.back_off(delay / 1000)
        raise AssertionError("the last try returns or raises")

    def _delay_ms(self, error: Exception, failed: int, timer: StepTimer) -> int | None:
        """Return how long to wait before the next try; None if there is none."""
        category = category_of(error, self.policy.retryable_categories)
        if not may_retry(self.policy, category, failed):
            return None
        retry = inside(error, Retry)
        if retry is not None and retry.after_ms is not None:
            return retry.after_ms
        return backoff_ms(self.policy, failed, timer.chance())

    def _log(self, name: str, failed: int, error: Exception, delay: int | None, log: Log) -> None:
        log.warning(
            "step %r failed (try %d of %d): %s; %s",
            name,
            failed + 1,
            max(self.policy.max_retries, 0) + 1,
            reason_of(error),
            "no try follows" if delay is None else f"the next try follows in {delay / 1000:g} s",
            exc_info=traceback_of(error),
        )

    async def _try(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        timer: StepTimer,
    ) -> Any:
        limit_ms = self.policy.attempt_timeout_ms
        if not limit_ms:
            return await call_function(fn, args, kwargs)
        try:
            async with asyncio.timeout(None) as limit:
                timing = asyncio.create_task(_expire(limit, timer, limit_ms / 1000))
                try:
                    return await call_function(fn, args, kwargs)
                finally:
                    timing.cancel()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise StepTimeout(f"step {name!r} took longer than {limit_ms / 1000:g} s") from error


async def _expire(limit: asyncio.Timeout, timer: StepTimer, seconds: float) -> None:
    """Expire a timeout after some seconds, by the given timer."""
    await timer.time_out(seconds)
    limit.reschedule(asyncio.get_running_loop().time())


async def call_function(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call the function of a step: on the event loop if it is async, else in a thread.

    A cancellation is raised here at once, and in the thread at its next Python instruction.
    """
    if inspect.iscoroutinefunction(fn):
        return await fn(*args, **kwargs)
    interrupt = Interrupt()
    try:
        value = await in_thread(functools.partial(fn, *args, **kwargs), interrupt)
    except asyncio.CancelledError as error:
        interrupt.set(error if isinstance(error, Interrupted) else DeadlinePassed("the step was cancelled"))
        raise
    return await value if inspect.isawaitable(value) else value

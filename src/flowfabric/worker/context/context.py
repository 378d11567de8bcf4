"""What a handler may do: durable steps, sleeping, waiting for people, streams, progress."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, Final, ParamSpec, TypeVar, Unpack, overload

from flowfabric.codecs import JSON, Codec, Duration, decode_value, encode_value, millis
from flowfabric.model.conditions import Condition, timeout_only
from flowfabric.model.contracts.access import LinkRequest
from flowfabric.model.contracts.base import HolderCommand
from flowfabric.model.contracts.lease import UpdateProgress
from flowfabric.model.contracts.reads import ReadToken
from flowfabric.model.contracts.streams import FrameInput, PutStep, StepExisting
from flowfabric.model.contracts.wait_results import WaitResult, unpack_wait
from flowfabric.model.contracts.waiting import Binding, SatisfiedAtOnce, Suspend
from flowfabric.model.errors import FlowFabricError, NotOffered, invalid
from flowfabric.storage.base import makes_links
from flowfabric.storage.minting import new_uuid
from flowfabric.worker.calls import Call
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.durable_calls import DurableCalls, Submitter, WithOptions
from flowfabric.worker.context.frames import Emitter, now_ms
from flowfabric.worker.context.waits import Count, Signal, Waitpoint, condition_of, signal_of, written_details
from flowfabric.worker.faults import LeaseLost, Suspended, WaitTimeout, is_loss
from flowfabric.worker.options import NOTHING, Options, SubmitOptions, options_of
from flowfabric.worker.steps.journal import (
    CHILD,
    LINK,
    SLEEP,
    SLEEPING,
    STEPS_AROUND,
    WAIT,
    WAITPOINT,
    Steps,
    step_around,
)
from flowfabric.worker.steps.policy import StepPolicy, StepTimer, call_function
from flowfabric.worker.steps.results import read_result, write_result

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


TURNS: Final = 4
"""Of the event loop: so many lie between the end of a step and its handler, when both meet in a group of tasks."""


class Context(DurableCalls):
    """Given to a handler that has a parameter of this type.

    ::

        @app.task
        async def review(ctx: Context, doc: str) -> bool:
            draft = await ctx.step("draft", write_draft, doc)
            answer = await ctx.wait_for_signal("approve", "reject", timeout="1d")
            return answer.name == "approve"

    A handler that waits gives its lease back and is run again from its top when the wait is over; finished steps are
    passed at once. So what must happen once belongs into a step.
    """

    def __init__(self, task: ClaimedTask, codec: Codec = JSON, submitter: Submitter | None = None) -> None:
        self._task = task
        self._codec = codec
        self._submitter = submitter
        self._steps = Steps(task)
        self._timer = StepTimer()
        self._emitter: Emitter | None = None
        self._running = 0
        self._over = self._interrupted = False
        self._leaving: asyncio.Event | None = None
        """While the lease is being given back: set when that is decided."""

    # Who we are.

    @property
    def execution_id(self) -> str:
        """The id of the run."""
        return self._task.execution_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 0."""
        return self._task.attempt_index

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the run."""
        return self._task.tags

    @property
    def fence(self) -> str:
        """A token that grows with every holder of this run: other systems that get it can refuse older ones."""
        return f"{self._task.execution_id}:{self._task.lease_epoch}"

    @property
    def deadline(self) -> datetime | None:
        """When the time of this attempt, or of the whole run, is over, by the store's clock; none: never."""
        task = self._task.task
        ends = [at for at in (task.attempt_deadline_at, task.execution_deadline_at) if at]
        return datetime.fromtimestamp(min(ends) / 1000, UTC) if ends else None

    @functools.cached_property
    def cancelled(self) -> asyncio.Event:
        """Set when somebody has cancelled the run."""
        return asyncio.Event()

    @functools.cached_property
    def lost(self) -> asyncio.Event:
        """Set when the lease is gone, for whatever reason: change nothing more."""
        return asyncio.Event()

    @property
    def task(self) -> ClaimedTask:
        """The claimed task itself, for what is not offered here."""
        return self._task

    @functools.cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that knows the ids of this run."""
        return bound_log(self._task.execution_kind, self.execution_id, self.attempt)

    # Steps.

    def options(self, **options: Unpack[SubmitOptions]) -> WithOptions:
        """Call a step or submit a child with options: those of `@app.task`, and for children those of `app.options`.

        ::

            careful = ctx.options(retries=3, backoff="1s", timeout="30s", retry_on=ConnectionError)
            draft = await careful.step("draft", write_draft, doc)
            child = await ctx.options(delay="1h").submit(resize, "a.png")

        A step takes `retries`, `backoff`, `retry_on` and `timeout`. Its tries happen in this attempt, with the lease
        held, and each failed one is logged. `timeout` limits each try: then the function is cancelled, in a thread at
        its next step in Python. The last error is raised, for a try that took too long a `StepTimeout`; if the handler
        does not catch it, the retries of the task follow.
        """
        return WithOptions(self, options_of(options))

    def _step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None = None,
    ) -> Coroutine[Any, Any, Any]:
        unique, place = self._steps.ask(
            name
        )  # now and not when awaited, so that the order is that of the calls
        return self._run_step(unique, place, fn, args, kwargs, policy)

    async def _run_step(
        self,
        name: str,
        place: int,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Any:
        found = await self._steps.find(name)
        if found is not None:
            return read_result(name, found.result, found.encoding, fn, self._codec)
        if self._leaving is not None:
            await self._leaving.wait()
        self._check()
        self._running += 1
        outer = STEPS_AROUND.set((*STEPS_AROUND.get(), name))
        try:
            if policy is None:
                value = await call_function(fn, args, kwargs)
            else:
                value = await policy.run(name, fn, args, kwargs, self.log, self._timer)
            return await self._keep(name, place, value, fn)
        finally:
            STEPS_AROUND.reset(outer)
            self._running -= 1
            self._step_ended.set()

    def _check(self) -> None:
        """Refuse to begin what could not be kept: the handler has ended, waits, or has lost its lease."""
        if self._task.hold.loss is not None:
            raise LeaseLost(str(self._task.hold.loss))
        if self._task.consumed or self._over:
            raise Suspended("the handler has ended, or waits: this belongs to what it left behind")

    def _end(self) -> None:
        """The handler has ended: what it left behind must begin nothing more."""
        self._over = True

    async def _caught(self, work: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
        """Do something for a handler in a thread, and carry whatever is raised there.

        A cancellation would turn into something else on its way.
        """
        if self._interrupted:
            return False, asyncio.CancelledError()
        call = asyncio.current_task()
        self._calls.add(call)
        try:
            return True, await work
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            return False, error
        finally:
            self._calls.discard(call)

    def _interrupt(self) -> None:
        """End what is being done for threads: the handler is interrupted, and would wait for it."""
        self._interrupted = True
        for call in self._calls:
            if call is not None:
                call.cancel()

    @functools.cached_property
    def _calls(self) -> set[asyncio.Task[Any] | None]:
        return set()

    @functools.cached_property
    def _step_ended(self) -> asyncio.Event:
        return asyncio.Event()

    @contextlib.asynccontextmanager
    async def _last(self) -> AsyncIterator[None]:
        """Let what runs beside a wait go first: the results of its steps would be refused without the lease."""
        while True:
            for _ in range(TURNS):  # steps may begin, and whoever waited for one may end the handler
                await asyncio.sleep(0)
            if self._leaving is not None:
                await self._leaving.wait()
            elif self._running > len(STEPS_AROUND.get()):
                self._step_ended.clear()
                await self._step_ended.wait()
            else:
                break
        self._check()
        self._leaving = asyncio.Event()
        try:
            yield
        finally:
            self._leaving.set()
            self._leaving = None

    async def _keep(self, name: str, place: int, value: Any, fn: Callable[..., Any]) -> Any:
        result, encoding = write_result(name, value, self._codec)
        kept = await self._put(name, place, result, encoding)
        return value if kept is None else read_result(name, *kept, fn, self._codec)

    async def _put(self, name: str, place: int, result: bytes, encoding: str) -> tuple[bytes, str] | None:
        """Store a result; return another one that was there before, if there was."""
        await self.flush()  # what a step has emitted goes first: once it is stored, nobody emits that again
        put = self._of(PutStep, step_name=name, result=result, encoding=encoding, call_index=place)
        answer = await self._send(put)
        if isinstance(answer, StepExisting) and answer.result != result:
            return answer.result, answer.encoding
        return None

    # Waiting.

    async def sleep(self, duration: Duration) -> None:
        """Give the lease back and go on after a while: `await ctx.sleep("30d")`.

        No worker is held meanwhile, and none has to live that long.
        """
        name, _ = self._steps.ask(SLEEP)
        if await self._steps.find(name) is None:
            await self._suspend(
                name, timeout_only(), Binding(new_uuid(), SLEEP), millis(duration), reason_code=SLEEPING
            )

    @overload
    async def wait_for_signal(
        self,
        *names: str,
        count: None = None,
        distinct: bool = False,
        timeout: Duration | None = None,  # noqa: ASYNC109
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Signal: ...

    @overload
    async def wait_for_signal(
        self,
        *names: str,
        count: Count,
        distinct: bool = False,
        timeout: Duration | None = None,  # noqa: ASYNC109
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> list[Signal]: ...

    async def wait_for_signal(
        self,
        *names: str,
        count: Count | None = None,
        distinct: bool = False,
        timeout: Duration | None = None,  # noqa: ASYNC109 - of the suspension, which lives in the store
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Signal | list[Signal]:
        """Give the lease back until signals come: the first of some names, or with `count` a list of several.

        ::

            answer = await ctx.wait_for_signal("approve", "reject", timeout="1d")
            votes = await ctx.wait_for_signal("go", count=2, distinct=True)

        `count` is a number, `"all"` of the names, or `"any"`. `distinct` counts each source once: two approvals from
        two people. Raises `WaitTimeout` when the time is over. `name` names the wait, and the waitpoint that signals
        are sent to; `waitpoint` is one that was created earlier. `message` and `details` are shown to whoever is to
        answer: on approval pages, in the inbox and by `ff waitpoints`.
        """
        label = name or (waitpoint.key if waitpoint else "") or "|".join(names) or "signal"
        step, _ = self._steps.ask(f"{WAIT}{label}")
        found = await self._steps.find(step)
        if found is not None:
            outcome = unpack_wait(found.result)
        else:
            key = waitpoint.key if waitpoint else label
            condition = condition_of(names, count, distinct=distinct, key=key)
            binding = Binding(waitpoint.id, key, pending=True) if waitpoint else Binding(new_uuid(), key)
            after = None if timeout is None else millis(timeout, "timeout")
            satisfied = await self._suspend(
                step, condition, binding, after, message=message, details=written_details(details)
            )
            return _answer([signal_of(view) for view in satisfied.resume_signals], count)
        if outcome.reason == "timeout":
            raise WaitTimeout(f"nobody sent {' or '.join(names) or 'a signal'} in time")
        return _answer(_signals(outcome), count)

    async def _suspend(
        self,
        step: str,
        condition: Condition,
        binding: Binding,
        timeout_ms: int | None,
        reason_code: str = "waiting_for_signal",
        **question: str,
    ) -> SatisfiedAtOnce:
        """Give the lease back and unwind the handler; goes on only when buffered signals suffice already."""
        suspension = new_uuid()
        command = self._of(
            Suspend, suspension_id=suspension, idempotency_key=suspension, waitpoints=(binding,), condition=condition,
            reason_code=reason_code, timeout_ms=timeout_ms, step_name=step,
            timeout_behavior=None if timeout_ms is None else "auto_resume", **question,
        )  # fmt: skip
        async with self._last():
            await self.flush()
            try:
                outcome = await self._task.end(command, keeps=SatisfiedAtOnce, repeat=True)
            except FlowFabricError as error:
                raise self._told(error) from error
        if isinstance(outcome, SatisfiedAtOnce):
            return outcome
        raise Suspended(step)

    async def create_waitpoint(
        self,
        key: str,
        expires: Duration = "1d",
        *,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Waitpoint:
        """Open a waitpoint before waiting on it, so that its token can be sent out first; made once in each attempt.

        ::

            waitpoint = await ctx.create_waitpoint("approval")
            await ctx.step("mail", send_mail, waitpoint.id, waitpoint.token)
            answer = await ctx.wait_for_signal("approve", waitpoint=waitpoint)

        Send the token inside a step: it is a secret, so it is not stored but read again whenever the handler runs, and
        it is empty when the waitpoint is closed already. `message` and `details` are as in `wait_for_signal`.
        """
        name, place = self._steps.ask(f"{WAITPOINT}{key}@{self.attempt}")
        id_ = str(uuid.uuid5(uuid.UUID(self._task.attempt_id), name))
        if await self._steps.find(name) is None:
            opened = await self._guard(
                self._task.create_pending_waitpoint(
                    key, expires, waitpoint_id=id_, message=message, details=written_details(details)
                )
            )
            await self._keep(name, place, {"waitpoint_id": id_}, _nothing)
            return Waitpoint(id_, key, opened.waitpoint_token)
        token = await self._task.ask(ReadToken(execution_id=self.execution_id, waitpoint_id=id_))
        return Waitpoint(id_, key, token or "")

    async def approval_link(
        self, waitpoint: Waitpoint, *signal_names: str, expires: Duration = "1d", to: str = ""
    ) -> str:
        """Make a link that lets whoever opens it send one of some signals, once; it is a page of the server.

        ::

            link = await ctx.approval_link(waitpoint, "approve", "reject", expires="7d", to="ann@example.com")

        The page shows the waitpoint's `message` and `details`, a button for each signal, and room for a comment, which
        arrives as the payload `{"comment": …}`. `answer.source` is `to`, or the name that the visitor gives. Send the
        link inside a step: it is a secret, so it is not stored, but every run of the handler makes the same one.
        """
        store = self._task.worker.store
        if not makes_links(store):
            raise NotOffered(
                "approval links are pages of a server: connect the worker to one (http://…), "
                "or send the waitpoint's id and token and deliver the signal yourself"
            )
        if not signal_names:
            raise invalid(
                "signal_names", 'name the signals to choose from: approval_link(waitpoint, "approve")'
            )
        name, place = self._steps.ask(f"{LINK}{waitpoint.key}@{self.attempt}")
        found = await self._steps.find(name)
        until = 0 if found is None else decode_value(found.result, found.encoding, int, self._codec)
        link = LinkRequest(
            execution_id=self.execution_id, waitpoint_id=waitpoint.id, signal_names=signal_names, expires_at=until,
            expires_in_ms=0 if until else millis(expires, "expires"), source_identity=to,
            link_id=str(uuid.uuid5(uuid.UUID(waitpoint.id), name)),
        )  # fmt: skip
        made = await store.make_link(link)
        if not until:
            await self._keep(name, place, made.expires_at, _nothing)
        return made.url

    # Children.

    async def _submit(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options = NOTHING
    ) -> Any:
        if self._submitter is None:
            raise NotOffered(
                "this worker has no app to submit with: run it with `app.worker()` or `ff worker`"
            )
        label = function if isinstance(function, str) else getattr(function, "__name__", "task")
        if isinstance(function, Call):
            label = function.command.execution_kind
            if args or kwargs or options != NOTHING:
                raise TypeError("a call that was prepared has its arguments and options already")
        name, place = self._steps.ask(f"{CHILD}{label}")
        found = await self._steps.find(name)
        if found is not None:
            child = decode_value(found.result, found.encoding, str)
        else:
            child = await self._submitter.submit(
                f"{self.execution_id}/{name}", function, args, kwargs, options
            )
            child = await self._keep(name, place, child, _nothing)
        return self._submitter.run(child, function)

    # Telling.

    async def emit(
        self,
        frame_type: str,
        payload: Any,
        *,
        best_effort: bool = False,
        correlation_id: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a frame to the stream of this attempt: `await ctx.emit("token", "once")`.

        The payload is text, bytes, or any value as JSON. Frames keep their order and are sent several at a time, so
        this returns before they are stored; `flush` waits. With `best_effort` a frame may be dropped where there are
        too many of them.

        A frame remembers the step in which it was emitted. When the handler runs again, what it emitted outside its
        stored steps is superseded, and readers are told so.
        """
        data, encoding = _frame_data(payload, self._codec)
        await self._emit(
            FrameInput(
                payload=data, frame_type=frame_type, mode="best_effort" if best_effort else "durable", ts=now_ms(),
                encoding=encoding, correlation_id=correlation_id,
                metadata_json=json.dumps(metadata) if metadata else "", step=step_around(),
            )
        )  # fmt: skip

    async def summary(self, patch: Mapping[str, Any]) -> None:
        """Merge a patch into the summary document of this attempt (JSON Merge Patch: null deletes)."""
        if not isinstance(patch, Mapping):
            raise invalid("patch", f"give names and their values, not {type(patch).__qualname__}")
        data, _ = encode_value(dict(patch))
        await self._emit(
            FrameInput(
                payload=data, frame_type="summary", mode="summary", ts=now_ms(), encoding="json",
                patch_kind="json-merge-patch", step=step_around(),
            )
        )  # fmt: skip

    async def flush(self) -> None:
        """Wait until every frame is stored. Done by itself before a step is kept and the handler ends or waits."""
        if self._emitter is not None:
            await self._guard(self._emitter.flush())

    async def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Say how far the work is, from 0 to 100, and what it does."""
        await self._send(self._of(UpdateProgress, pct=pct, message=message))

    async def _emit(self, frame: FrameInput) -> None:
        if self._emitter is None:
            self._emitter = Emitter(self._task)
        await self._guard(self._emitter.emit(frame))

    # How.

    def _of(self, kind: Callable[..., R], **fields: Any) -> R:
        return kind(execution_id=self._task.execution_id, fence=self._task.task.fence, **fields)

    async def _send(self, command: HolderCommand[R]) -> R:
        return await self._guard(self._task.send(command))

    async def _guard(self, call: Awaitable[R]) -> R:
        try:
            return await call
        except FlowFabricError as error:
            raise self._told(error) from error

    @staticmethod
    def _told(error: FlowFabricError) -> BaseException:
        """A lease that is gone stops the handler; any other refusal is the handler's."""
        return LeaseLost(str(error)) if is_loss(error) else error


def bound_log(kind: str, execution_id: str, attempt: int) -> logging.LoggerAdapter[logging.Logger]:
    """Return the logger of a kind, which adds the ids of a run."""
    ids = {"execution_id": execution_id, "attempt": attempt, "kind": kind}
    return _Bound(logging.getLogger(f"flowfabric.task.{kind}"), ids)


class _Bound(logging.LoggerAdapter[logging.Logger]):
    """Adds the ids of a run to every record."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def _nothing() -> Any:
    """Stands for a function without annotations."""


def _frame_data(payload: Any, codec: Codec) -> tuple[bytes, str]:
    if isinstance(payload, str):
        return payload.encode(), "utf8"
    return encode_value(payload, codec)


def _signals(outcome: WaitResult) -> list[Signal]:
    return [signal_of(stored.view()) for stored in outcome.signals]


def _answer(signals: list[Signal], count: Count | None) -> Signal | list[Signal]:
    if count is not None:
        return signals
    return signals[0] if signals else Signal("")

"""Turning calls of tasks into executions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from flowfabric.app.connection import StoreConnection
from flowfabric.app.errors import SubmitRefused
from flowfabric.app.retrying import retry_while_away
from flowfabric.app.run import Run, StoreHandle
from flowfabric.app.submit_methods import SubmitMethods
from flowfabric.app.tasks import Registry
from flowfabric.codecs import EncodeFault, encode_value, millis
from flowfabric.engine.kinds import KindCache
from flowfabric.model import ids
from flowfabric.model.errors import FlowFabricError, InvalidInput
from flowfabric.model.kinds import DEFAULT_LANE, with_defaults
from flowfabric.model.limits import MAX_BATCH
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.presence import DEFAULT_NAMESPACE
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid
from flowfabric.worker.calls import Call
from flowfabric.worker.options import NOTHING, Options

R = TypeVar("R")
SUBMIT_SECONDS: Final = 5.0
"""How long a submission is retried while the store is unreachable; its id is fixed, so there is never a second run."""


@dataclass(frozen=True, slots=True)
class AppCore:
    """What the parts of one app share: its connection, registry and namespace."""

    connection: StoreConnection
    home: StoreHandle
    registry: Registry
    namespace: str
    kinds: KindCache = field(default_factory=KindCache)
    """Published kinds, for tasks that are known by name only."""

    def on(self, connection: StoreConnection) -> AppCore:
        """Return a copy that uses another connection."""
        home = StoreHandle(connection.get, self.home.codec, self.home.patience)
        return AppCore(connection, home, self.registry, self.namespace)

    def run(self, execution_id: str, task: Callable[..., Any] | str | None) -> Run[Any]:
        """Return the handle of a run; the task determines the type of its result."""
        registry = self.registry
        known = registry.by_kind.get(task) if isinstance(task, str) else task and registry.find(task)
        if not known:
            return Run(self.home, execution_id)
        return Run(self.home, execution_id, registry.handler(known).returns, codec=known.codec)


class Submitter(SubmitMethods):
    """Submits calls with options that override those of their tasks."""

    def __init__(self, core: AppCore, options: Options) -> None:
        self._core = core
        self._options = options
        self._has_options = options != NOTHING
        self._decides_policy = options.has_policy
        options.check()

    def _call(
        self, task: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call[Any]:
        core = self._core
        declared = core.registry.by_kind.get(task) if isinstance(task, str) else core.registry.find(task)
        if declared is None:
            assert isinstance(task, str), "a function that is no task was refused"
            command = self._prepared(task, NOTHING, b"", self._untyped(args, kwargs))
            return Call(replace(command, lane_id=self._options.lane or ""), Any, by_name=True)
        handler = core.registry.handler(declared)
        written = handler.signature.bind(args, kwargs)
        command = self._prepared(declared.kind, declared.options, declared.policy, written)
        return Call(command, handler.returns, declared.codec)

    def _untyped(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, str]:
        """Encode the arguments of a task that this app does not define: by name, or one value as the whole input."""
        if args and (kwargs or len(args) > 1):
            raise InvalidInput(
                "a task that this app does not know takes arguments by name, or one value by place"
            )
        try:
            return encode_value(args[0] if args else kwargs, self._core.home.codec)
        except EncodeFault as fault:
            raise InvalidInput(str(fault)) from fault

    def _prepared(
        self, kind: str, defaults: Options, policy: bytes, written: tuple[bytes, str]
    ) -> CreateExecution:
        own = self._options
        said = own.over(defaults) if self._has_options else defaults
        return CreateExecution(
            execution_id=new_uuid(),
            execution_kind=kind,
            lane_id=said.lane or DEFAULT_LANE,
            namespace=self._core.namespace or DEFAULT_NAMESPACE,
            input_payload=written[0],
            payload_encoding=written[1],
            priority=said.priority,
            idempotency_key=said.key or "",
            tags=said.tag_pairs(),
            policy=said.policy() if self._decides_policy else policy,
            fairness_key=said.fairness_key or "",
            delay_ms=None if said.delay is None else millis(said.delay, "delay"),
        )

    async def _submit(self, call: Call[R]) -> Run[R]:
        store = await self._core.connection.get()

        async def send() -> Created | Duplicate:
            (command,) = await self._commands([call], store)
            return await store.apply(command)

        return self._run(call, await retry_while_away(send, SUBMIT_SECONDS))

    async def _submit_many(self, calls: list[Call[R]]) -> list[Run[R]]:
        store = await self._core.connection.get()
        runs: list[Run[R]] = []
        refusals: dict[int, FlowFabricError] = {}
        for start in range(0, len(calls), MAX_BATCH):
            part = calls[start : start + MAX_BATCH]
            replies = await store.apply_many(await self._commands(part, store))
            for place, (call, reply) in enumerate(zip(part, replies, strict=True), start):
                if isinstance(reply, FlowFabricError):
                    refusals[place] = reply
                else:
                    runs.append(self._run(call, reply))
        if refusals:
            raise SubmitRefused(refusals)
        return runs

    async def _commands(self, calls: Sequence[Call[Any]], store: Commands) -> list[CreateExecution]:
        """Return the commands of some calls, after one lookup of all kinds that are known by name only."""
        named = {(each.command.namespace, each.command.execution_kind) for each in calls if each.by_name}
        kinds = await self._core.kinds.find(store, sorted(named)) if named else {}
        return [
            with_defaults(placed, kinds[placed.namespace, placed.execution_kind]) if call.by_name else placed
            for call in calls
            for placed in (_placed(call, store),)
        ]

    def _run(self, call: Call[R], reply: Created | Duplicate) -> Run[R]:
        duplicate = isinstance(reply, Duplicate)
        return Run(self._core.home, reply.execution_id, call.returns, codec=call.codec, duplicate=duplicate)


def _placed(call: Call[Any], store: Commands) -> CreateExecution:
    """Return the command with a complete execution id, which names the partition."""
    command = call.command
    uuid, key = command.execution_id, command.idempotency_key
    place = (
        ids.for_key(command.namespace, key, uuid, store.partitions)
        if key
        else ids.spread(uuid, store.partitions)
    )
    return replace(command, execution_id=place)

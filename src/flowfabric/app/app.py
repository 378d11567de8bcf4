"""The app: its tasks, submissions, runs and workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Final, Self, TypeVar, Unpack, overload

from flowfabric.app.app_worker import AppWorker
from flowfabric.app.connection import StoreConnection
from flowfabric.app.dependencies import Factory
from flowfabric.app.run import PATIENCE_SECONDS, Run, StoreHandle
from flowfabric.app.submitter import AppCore, Submitter
from flowfabric.app.sync import SyncFlowFabric
from flowfabric.app.tasks import Registry, TaskDefinition, kind_of
from flowfabric.codecs import JSON, Codec, Duration, seconds
from flowfabric.model.errors import invalid
from flowfabric.storage.base import Commands
from flowfabric.worker.handlers import Executor, WorkerSettings, words
from flowfabric.worker.layers import Layer
from flowfabric.worker.options import NOTHING, SubmitOptions, TaskOptions, submit_options, task_options

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Hook = Callable[[], Any]
EXECUTORS: Final = ("loop", "thread", "process")


class FlowFabric(Submitter):
    """The tasks of a program, and the store that keeps their runs.

    ::

        app = FlowFabric()                  # a SQLite file in your data folder; or a path, valkey://…, http://server:9090

        @app.task(retries=3, timeout="2m")
        async def review(ctx: Context, doc: str) -> dict[str, bool]: ...

        async def main() -> None:
            async with app.worker():
                run = await app.submit(review, "text")
                print(await run.result())

    Without a URL, `FF_STORE` and the related environment variables name the store; without those it is a local SQLite
    file. Passwords and tokens are part of the URL (`http://:token@server:9090`). The store is opened on first use, and
    closed by `await app.close()` or at the end of `async with app:`. A store that you pass (`store=…`) is yours to
    close.

    The decorator returns the function unchanged: a task can be called and tested like any other function.

    `codec` encodes the arguments and results of tasks without a codec of their own. Runs belong to the `namespace`, and
    its workers take no others. Whoever waits for a result longer than `patience` finds the reason in the log. Every
    worker of the app has the `layers`.
    """

    def __init__(
        self,
        url: str = "",
        *,
        store: Commands | None = None,
        namespace: str = "",
        codec: Codec = JSON,
        patience: Duration = PATIENCE_SECONDS,
        layers: Sequence[Layer] = (),
    ) -> None:
        connection = StoreConnection(url, store)
        home = StoreHandle(connection.get, codec, seconds(patience, "patience"))
        super().__init__(AppCore(connection, home, Registry(), namespace), NOTHING)
        self._layers = tuple(layers)
        self._starts: list[Hook] = []
        self._stops: list[Hook] = []

    async def __aenter__(self) -> Self:
        await self._core.connection.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._core.connection.leave()

    async def close(self) -> None:
        """Close the store. The next use opens it again."""
        await self._core.connection.close()

    def using(self, store: Commands) -> AbstractContextManager[None]:
        """Use another store inside the block: `with app.using(store): …`. For tests there is `Lab`, which does this."""
        return self._core.connection.lent(store)

    # Declaring.

    @overload
    def task(self, function: F, /) -> F: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str = "",
        version: int = 1,
        executor: Executor | None = None,
        codec: Codec | None = None,
        **options: Unpack[TaskOptions],
    ) -> Callable[[F], F]: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str = "",
        version: int = 1,
        executor: Executor | None = None,
        codec: Codec | None = None,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Declare a function as a task, and return it unchanged.

        ::

            @app.task(retries=3, timeout="2m", lane="slow")
            async def review(ctx: Context, doc: str) -> bool: ...

            @app.task                            # a plain function runs in a thread
            def resize(path: str, width: int = 80) -> str: ...

        The kind of the task is the name of the function. `version=2` makes it `name@2`, a kind of its own, so that runs
        in progress keep the code that they began with. `options` are those of `Options` except `delay` and `key`; a
        submission can override them. A `def` runs in a thread, an `async def` on the event loop, and with
        `executor="process"` either runs in a separate process, where its context is a `SyncContext`.

        Raises at once if another task has the same kind, or if the function cannot be a task.
        """
        said = task_options(options)

        def declare(declared: F) -> F:
            _check_function(declared)
            task = TaskDefinition(
                kind=kind_of(declared, name, version),
                function=declared,
                options=said,
                executor=_executor(declared, executor),
                codec=codec or self._core.home.codec,
                policy=said.policy(),
            )
            said.check()
            self._core.registry.add(task)
            return declared

        return declare if function is None else declare(function)

    @overload
    def provide(self, type_: type, factory: Factory) -> None: ...
    @overload
    def provide(self, type_: type) -> Callable[[F], F]: ...

    def provide(self, type_: type, factory: Factory | None = None) -> Any:
        """Register the factory of a dependency, which handlers request by its type.

        ::

            @app.provide(Client)
            async def client():
                async with Client() as client:
                    yield client

            @app.task
            async def fetch(url: str, *, http: Client = provided) -> str: ...

        Each worker opens the dependency once, and closes it when it stops. The factory is a function, an async
        function, a generator that yields once, or the class of a context manager.
        """

        def take(made: F) -> F:
            self._core.registry.provide(type_, made)
            return made

        if factory is None:
            return take
        take(factory)
        return None

    def on_start(self, hook: F) -> F:
        """Call a function, async or not, before a worker of this app starts to claim: `@app.on_start`."""
        self._starts.append(hook)
        return hook

    def on_stop(self, hook: F) -> F:
        """Call a function, async or not, after a worker of this app has stopped: `@app.on_stop`."""
        self._stops.append(hook)
        return hook

    # Using.

    def options(self, **options: Unpack[SubmitOptions]) -> Submitter:
        """Return a submitter whose options override those of the tasks; see `Options`.

        ::

            await app.options(delay="5m", key="invoice-17").submit(remind, "ada@example.org")

        It has `submit`, `submit_many` and `call`, and can be used any number of times.
        """
        return Submitter(self._core, submit_options(options))

    @overload
    def run(self, execution_id: str, task: Callable[..., Coroutine[Any, Any, R]], /) -> Run[R]: ...
    @overload
    def run(self, execution_id: str, task: Callable[..., R], /) -> Run[R]: ...
    @overload
    def run(self, execution_id: str, /) -> Run[Any]: ...

    def run(self, execution_id: str, task: Callable[..., Any] | None = None, /) -> Run[Any]:
        """Return the handle of a run by its id, in any process. The task determines the type of the result.

        ::

            run = app.run(execution_id, review)

        The id is complete, `{fp:24}:<uuid>`, or only the UUID, or at least the first four digits of the UUID if they
        are unambiguous. The store is not asked yet: an unknown id raises when the handle is used.
        """
        return self._core.run(execution_id, task)

    def worker(
        self,
        *,
        lanes: Iterable[str] = (),
        concurrency: int = 16,
        prefetch: int = 0,
        lease_ttl: Duration = "30s",
        grace: Duration = "10s",
        capabilities: Iterable[str] = (),
        worker_id: str = "",
        layers: Sequence[Layer] = (),
        engine: bool | None = None,
    ) -> AppWorker:
        """Return a worker for the tasks of this app, to run beside your own code or until a signal.

        ::

            async with app.worker(concurrency=32):
                ...

            asyncio.run(app.worker().run())          # what `ff worker` does

        `concurrency` handlers run at once; `prefetch` more tasks are claimed ahead, so that a free slot need not wait
        for a claim. Without `lanes` the worker serves the lanes of its tasks. `lease_ttl` is how long the work of a
        dead worker waits before others can take it. A worker that stops claims no more, and running handlers may
        continue for the `grace` period.

        Connected to a store directly, the worker also runs the engine, which fires timers and retries; `engine=False`
        leaves that to others. `layers` are middleware around every store call and handler, inside those of the app: see
        `Layer`.
        """
        settings = WorkerSettings(
            lanes=words("lanes", lanes),
            concurrency=concurrency,
            prefetch=prefetch,
            lease_ttl=lease_ttl,
            grace=grace,
            capabilities=words("capabilities", capabilities),
            worker_id=worker_id,
            namespace=self._core.namespace,
        ).checked()
        return AppWorker(
            self._core,
            settings,
            layers=(*self._layers, *layers),
            engine=engine,
            starts=self._starts,
            stops=self._stops,
        )

    @cached_property
    def sync(self) -> SyncFlowFabric:
        """The app for code that is not async: `app.sync.submit(review, "text").result(timeout="1m")`."""
        return SyncFlowFabric(self._core, NOTHING)


def _check_function(function: Callable[..., Any]) -> None:
    if not inspect.isroutine(function):
        raise TypeError(f"{function!r} is no function: put @app.task over a def or an async def")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__} yields: a task returns its result, and streams with ctx.emit"
        )


def _executor(function: Callable[..., Any], said: Executor | None) -> Executor:
    awaits = inspect.iscoroutinefunction(function)
    if said is None:
        return "loop" if awaits else "thread"
    if said not in EXECUTORS:
        raise invalid("executor", f"one of {', '.join(EXECUTORS)}")
    if said == "process" and "<" in function.__qualname__:
        raise invalid(
            "executor", "another process finds a function by its name: define it at the top of its module"
        )
    if said == "thread" and awaits:
        raise invalid("executor", "an async function runs on the event loop; for a thread write it with def")
    if said == "loop" and not awaits:
        raise invalid("executor", "a function without async would block the event loop; leave it to a thread")
    return said

"""The app: tasks, submissions, runs, workers."""

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
    """A program's tasks, and the store that their runs live in.

    ::

        app = FlowFabric()                  # a SQLite file in your data folder; or a path, valkey://…, http://server:9090

        @app.task(retries=3, timeout="2m")
        async def review(ctx: Context, doc: str) -> dict[str, bool]: ...

        async def main() -> None:
            async with app.worker():
                run = await app.submit(review, "text")
                print(await run.result())

    Without a URL the store is that of `FF_STORE` and its friends, else the embedded one. Passwords and tokens stand in
    the URL (`http://:token@server:9090`). It is opened when it is first needed, and closed by `await app.close()` or at
    the end of `async with app:`; a store of your own (`store=…`) stays yours to close.

    Functions stay what they are: a task can be called and tested like any other function.

    What has no codec of its own is written with `codec`. Runs belong to the `namespace`; its workers take no others.
    Who waits for a result is told after `patience` why it does not come. Every worker of the app has the `layers`.
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
        """Close the store; it is opened again when it is needed again."""
        await self._core.connection.close()

    def using(self, store: Commands) -> AbstractContextManager[None]:
        """Live on another store for a while: `with app.using(store): …`. For tests there is `Lab`, which does it."""
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
        """Declare a function as a task; it stays the function that it was.

        ::

            @app.task(retries=3, timeout="2m", lane="slow")
            async def review(ctx: Context, doc: str) -> bool: ...

            @app.task                            # a plain function runs in a thread
            def resize(path: str, width: int = 80) -> str: ...

        Its kind is its name; a `version` from the second on makes it `name@2`, a kind of its own, so that work that is
        under way keeps the code that it began with. `options` are those of `Options`, but for `delay` and `key`; they
        hold for every submission that says nothing else. `def` runs in a thread, `async def` on the event loop, and
        with `executor="process"` it runs in a process of its own, where its context is a `SyncContext`.

        A second task of the same kind is refused, and so is what cannot be a task: both raise at once.
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
        """Say how to open what handlers ask for by type; each worker opens it once, and closes it at its end.

        ::

            @app.provide(Client)
            async def client():
                async with Client() as client:
                    yield client

            @app.task
            async def fetch(url: str, *, http: Client = provided) -> str: ...

        The factory is a function, an async function, a generator that yields once, or the class of a context manager.
        """

        def take(made: F) -> F:
            self._core.registry.provide(type_, made)
            return made

        if factory is None:
            return take
        take(factory)
        return None

    def on_start(self, hook: F) -> F:
        """Run a function, async or not, before a worker of this app takes work: `@app.on_start`."""
        self._starts.append(hook)
        return hook

    def on_stop(self, hook: F) -> F:
        """Run a function, async or not, after a worker of this app has ended: `@app.on_stop`."""
        self._stops.append(hook)
        return hook

    # Using.

    def options(self, **options: Unpack[SubmitOptions]) -> Submitter:
        """Say something else for some submissions than their tasks do; what can be said is in `Options`.

        ::

            await app.options(delay="5m", key="invoice-17").submit(remind, "ada@example.org")

        What it returns has `submit`, `submit_many` and `call`, and can be kept and used again.
        """
        return Submitter(self._core, submit_options(options))

    @overload
    def run(self, execution_id: str, task: Callable[..., Coroutine[Any, Any, R]], /) -> Run[R]: ...
    @overload
    def run(self, execution_id: str, task: Callable[..., R], /) -> Run[R]: ...
    @overload
    def run(self, execution_id: str, /) -> Run[Any]: ...

    def run(self, execution_id: str, task: Callable[..., Any] | None = None, /) -> Run[Any]:
        """Return the handle of a run by its id, in any process; the task says of which type its result is.

        ::

            run = app.run(execution_id, review)

        The id may be whole, `{fp:24}:<uuid>`, the UUID in it, or the first four digits or more of that, as long as only
        one execution is meant. Nothing is asked yet: whether there is such a run shows when the handle is used.
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
        """Run the tasks of this app: beside your own code, or until a signal ends it.

        ::

            async with app.worker(concurrency=32):
                ...

            asyncio.run(app.worker().run())          # what `ff worker` does

        `concurrency` handlers run at once, and `prefetch` tasks are held besides, so that a free place need not wait.
        Without `lanes` it serves those of its tasks. `lease_ttl` is how long the store waits for a worker that has died
        before others take its work. At its end a worker stops claiming, and running handlers get their `grace`.

        On a store of its own it also runs the engine, which fires timers and retries; `engine=False` leaves that to
        others. `layers`, and those of the app before them, see every call and every handler: see `Layer`.
        """
        settings = WorkerSettings(
            lanes=words("lanes", lanes), concurrency=concurrency, prefetch=prefetch, lease_ttl=lease_ttl,
            grace=grace, capabilities=words("capabilities", capabilities), worker_id=worker_id,
            namespace=self._core.namespace,
        ).checked()  # fmt: skip
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
        """The same for code that is not async: `app.sync.submit(review, "text").result(timeout="1m")`."""
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

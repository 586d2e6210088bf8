"""The parties of a run, which send requests: the controllers, each with its own client, and the test itself.

A party is an ordinary function with a client as its argument, or an async one in trio or asyncio. Every call of its
client becomes an `Operation`, and the party goes on only when the run completes it. So exactly one party runs at a
time, while the server is idle. A function that is not async has a thread, and the run waits until it calls its client
again. One of asyncio has a thread with an event loop, and the run waits until all of its tasks wait.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

import httpx
import orjson
import outcome
import trio

from rewound.testing.explore.asyncio_loop import ExploredLoop
from rewound.testing.explore.still_server import Exchange, user_headers

_EXTENSION: Final = "rewound_watch"  # name of an extension of httpx.Response
_GONE: Final = 410
URL: Final = "http://rewound"
_SECONDS: Final = 60.0  # real time that a controller may compute between two requests
# Seconds: sums of floats may be a little too small, and a timer would not be due.
_AFTER_A_TIMER: Final = 1e-6
TRIO, ASYNCIO = LIBRARIES = ("trio", "asyncio")
_MOST_REFUSALS: Final = 100  # operations of a party that has crashed and does not end


class Crashed(BaseException):
    """Ends a controller where it is; no controller may catch it."""


class Stuck(Exception):
    """A party does something that the explorer cannot see."""


class Watch:
    """An open watch: what the server has sent, and how much of it the party has got."""

    def __init__(self, exchange: Exchange, words: str) -> None:
        self.exchange = exchange
        self.words = words  # watch pods/default
        self.held_until: float = 0  # the number of the operation at which its events arrive again
        self.one_by_one = False  # when no party can go on, only one of the held events arrives
        self.let_through = 0  # events that arrive although it is held
        self.cut = False
        self.reported_end = False
        self.lines: list[bytes] = []  # received by the party
        self._position = 0

    def next_line(self) -> bytes | None:
        end = self.exchange.body.find(b"\n", self._position)
        return None if end < 0 else bytes(self.exchange.body[self._position : end + 1])

    @property
    def has_ended(self) -> bool:
        return self.cut or (self.exchange.ended and self.next_line() is None)

    @property
    def has_news(self) -> bool:
        return self.has_ended or self.next_line() is not None

    def take(self) -> bytes | None:
        """The next line; None at the end."""
        line = None if self.cut else self.next_line()
        if line is not None:
            self._position += len(line)
            self.let_through = max(0, self.let_through - 1)
            self.lines.append(line)
        return line


class Reply(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes | Watch

    def response(self, stream: Callable[[Watch], Any]) -> httpx.Response:
        """`stream` reads a watch."""
        if isinstance(self.body, bytes):
            return httpx.Response(self.status, headers=self.headers, content=self.body)
        extensions = {_EXTENSION: self.body}
        return httpx.Response(
            self.status, headers=self.headers, stream=stream(self.body), extensions=extensions
        )


Line = tuple[Watch, bytes | None]  # None at the end of the watch


@dataclass(slots=True, eq=False)
class Operation:
    """Something that a party waits for."""

    party: Party
    complete: Callable[[outcome.Outcome[Any]], None] = field(init=False)


@dataclass(slots=True, eq=False)
class Send(Operation):
    """A request; the result is a Reply."""

    request: httpx.Request


@dataclass(slots=True, eq=False)
class Read(Operation):
    """Reads the next line of any of these watches, or all that have arrived, as pairs; the line is None at its end."""

    watches: Sequence[Watch]
    all_arrived: bool = False


@dataclass(slots=True, eq=False)
class Sleep(Operation):
    until: float  # seconds of the server's clock


@dataclass(slots=True, eq=False)
class Settle(Operation):
    """Waits until no controller writes any more."""


class Party:
    """A function and its operations in a run."""

    def __init__(
        self, name: str, function: Callable[..., Any], *, is_test: bool = False, library: str = TRIO
    ) -> None:
        """`library`: of an async function."""
        self.name, self.function, self.is_test, self.library = name, function, is_test, library
        self.operations: list[Operation] = []  # that are not completed yet, oldest first
        self.watches: list[Watch] = []  # that are open
        self.repeated: dict[
            str, str
        ] = {}  # the version with which the next watch begins, by the watch's description
        self.ended: outcome.Outcome[Any] | None = None  # how the function has ended
        self.crashed = False
        self.seconds: Callable[[], float] = float  # the time of the server
        self._process: _Thread | _Task | _AsyncioThread | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Run the function from its beginning up to its first operation."""
        self.ended, self.crashed = None, False
        make: Any = _Thread
        if inspect.iscoroutinefunction(self.function):
            make = _Task if self.library == TRIO else _AsyncioThread
        self._process = make(self, nursery)

    def crash(self) -> None:
        """End the function where it is, with all of its watches."""
        self.crashed = True
        self.close_watches()
        if self._process is not None:
            self._process.crash()

    def close_watches(self) -> None:
        for watch in self.watches:
            watch.exchange.close()
        self.watches.clear()


class _Thread:
    """A function in a thread that runs only while the event loop waits for it."""

    def __init__(self, party: Party, _: trio.Nursery) -> None:
        self._party = party
        self._calls: SimpleQueue[Operation | None] = SimpleQueue()
        self._results: SimpleQueue[outcome.Outcome[Any]] = SimpleQueue()
        self._refused = 0
        thread = threading.Thread(target=self._run, name=f"explored {party.name}", daemon=True)
        thread.start()
        self._await()

    def _run(self) -> None:
        with Api(self._party, self) as api:
            try:
                self._party.ended = outcome.Value(self._party.function(api))
            except BaseException as error:
                self._party.ended = outcome.Error(error)
        self._calls.put(None)

    def call(self, operation: Operation) -> Any:
        """Call the client; runs in the thread of the function."""
        if self._party.crashed:
            self._refused += 1
            if self._refused < _MOST_REFUSALS:
                raise Crashed
        operation.complete = self._complete
        self._calls.put(operation)
        return self._results.get().unwrap()

    def _complete(self, result: outcome.Outcome[Any]) -> None:
        """Run the function up to its next operation."""
        self._results.put(result)
        self._await()

    def _await(self) -> None:
        try:
            operation = self._calls.get(timeout=_SECONDS)
        except Empty:
            raise Stuck(
                f"{self._party.name} has neither called its client nor ended for {_SECONDS:.0f} s: "
                "it must wait only in its client, for time with api.sleep(seconds)"
            ) from None
        if operation is None:
            return
        if self._party.crashed:
            raise Stuck(f"{self._party.name} catches BaseException and does not end when it crashes")
        self._party.operations.append(operation)

    def crash(self) -> None:
        operations, self._party.operations = self._party.operations, []
        for operation in operations:
            operation.complete(outcome.Error(Crashed()))


class _Task:
    """An async function in the event loop of the server."""

    def __init__(self, party: Party, nursery: trio.Nursery) -> None:
        self._party = party
        self._scope = trio.CancelScope()
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        party = self._party
        async with AsyncApi(party, self) as api:
            with self._scope:
                try:
                    result: outcome.Outcome[Any] = outcome.Value(await party.function(api))
                except Exception as error:
                    result = outcome.Error(error)
                party.ended = result

    async def call(self, operation: Operation) -> Any:
        if self._party.crashed:
            raise Crashed
        done, results = trio.Event(), list[outcome.Outcome[Any]]()

        def complete(result: outcome.Outcome[Any]) -> None:
            results.append(result)
            done.set()

        operation.complete = complete
        self._party.operations.append(operation)
        try:
            await done.wait()
        except trio.Cancelled:
            if operation in self._party.operations:
                self._party.operations.remove(operation)
            raise
        return results[0].unwrap()

    def crash(self) -> None:
        self._scope.cancel()
        self._party.operations.clear()


class _AsyncioThread:
    """An async function of asyncio, in a thread whose event loop runs only while that of the server waits for it.

    The loop hands over whenever all of its tasks wait. What they wait for are operations, and the first timer a sleep.
    """

    def __init__(self, party: Party, _: trio.Nursery) -> None:
        self._party = party
        self._new: list[Operation] = []  # that tasks have added since the loop waited last
        self._timer: Sleep | None = None
        self._handovers: SimpleQueue[list[Operation] | None] = SimpleQueue()
        self._results: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ends = False  # nothing is waited for any more
        self._ignores_cancellation = False
        thread = threading.Thread(target=self._run, name=f"explored {party.name}", daemon=True)
        thread.start()
        self._await()

    # In the thread of the function.

    def _run(self) -> None:
        loop = ExploredLoop(self._wait, lambda: self._party.seconds())
        try:
            self._party.ended = outcome.Value(loop.run_until_complete(self._call_function()))
        except BaseException as error:
            self._party.ended = outcome.Error(error)
        self._ends = True
        try:
            _end_tasks(loop)
        except BaseException:
            self._ignores_cancellation = True
        finally:
            loop.close()
        self._handovers.put(None)

    async def _call_function(self) -> Any:
        async with AsyncApi(self._party, self) as api:
            return await self._party.function(api)

    async def call(self, operation: Operation) -> Any:
        if self._ends or self._party.crashed:
            raise asyncio.CancelledError
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def complete(result: outcome.Outcome[Any]) -> None:
            self._go_on(partial(_resolve, found, result))

        operation.complete = complete
        self._new.append(operation)
        try:
            return await found
        except asyncio.CancelledError:
            if operation in self._new:
                self._new.remove(operation)
            elif operation in self._party.operations:  # the event loop of the server waits for this thread
                self._party.operations.remove(operation)
            raise

    def _wait(self, seconds: float | None) -> None:
        """Called when all tasks wait; the first timer is due after so many seconds."""
        if self._ends:
            raise Crashed
        if seconds is not None:
            self._timer = Sleep(self._party, self._party.seconds() + seconds + _AFTER_A_TIMER)
            self._timer.complete = lambda _: self._go_on(lambda: None)
            self._new.append(self._timer)
        new, self._new = self._new, []
        self._handovers.put(new)
        resolve = self._results.get()
        if resolve is None:
            raise Crashed
        resolve()

    # In the event loop of the server.

    def _go_on(self, resolve: Callable[[], None] | None) -> None:
        """Run the function until all of its tasks wait again."""
        if self._timer in self._party.operations:
            self._party.operations.remove(self._timer)
        self._timer = None
        self._results.put(resolve)
        self._await()

    def _await(self) -> None:
        try:
            operations = self._handovers.get(timeout=_SECONDS)
        except Empty:
            raise Stuck(
                f"{self._party.name} has neither waited nor ended for {_SECONDS:.0f} s: "
                "it must wait only in its client and in asyncio, for time with asyncio.sleep(seconds)"
            ) from None
        if self._ignores_cancellation:
            raise Stuck(f"{self._party.name} does not end when its tasks are cancelled")
        self._party.operations += operations or ()

    def crash(self) -> None:
        self._party.operations.clear()
        self._timer = None
        self._go_on(None)


def _resolve(found: asyncio.Future[Any], result: outcome.Outcome[Any]) -> None:
    if found.done():
        return
    if isinstance(result, outcome.Error):
        found.set_exception(result.error)
    else:
        found.set_result(result.unwrap())


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks, as `asyncio.run` does. Raises Crashed if one waits for something even so."""
    loop.set_exception_handler(lambda *_: None)  # tasks end with errors after a crash
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())


class Api(httpx.Client):
    """The client of a function: an httpx.Client, and ways to wait that the explorer controls."""

    def __init__(self, party: Party, process: _Thread) -> None:
        self._party, self._process = party, process
        super().__init__(
            transport=_Transport(party, process),
            base_url=URL,
            headers=user_headers(party.name),
            trust_env=False,
            timeout=None,
        )

    def sleep(self, seconds: float) -> None:
        """Wait in the time of the server."""
        self._process.call(Sleep(self._party, self._party.seconds() + seconds))

    def settle(self) -> None:
        """Wait until no controller writes any more; only for the test."""
        self._process.call(Settle(self._party))

    def watch(self, path: str, **parameters: str) -> Iterator[Any]:
        """The events of one watch, up to its end."""
        with self.stream("GET", path, params={"watch": "1", **parameters}) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                yield orjson.loads(line)

    def informers(self, *paths: str) -> Informers:
        """A cache of these collections, and a way to wait for the next change of any."""
        return Informers(self, paths)

    def read_arrived(self, watches: Sequence[Watch]) -> list[Line]:
        """The lines of these watches that have arrived, at least one, in the order of their versions."""
        found: list[Line] = self._process.call(Read(self._party, watches, all_arrived=True))
        return found


class _Transport(httpx.BaseTransport):
    def __init__(self, party: Party, process: _Thread) -> None:
        self._party, self._process = party, process

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        reply: Reply = self._process.call(Send(self._party, request))
        return reply.response(partial(_Lines, self._party, self._process))


class _Lines(httpx.SyncByteStream):
    def __init__(self, party: Party, process: _Thread, watch: Watch) -> None:
        self._party, self._process, self._watch = party, process, watch

    def __iter__(self) -> Iterator[bytes]:
        while True:
            ((_, line),) = self._process.call(Read(self._party, (self._watch,)))
            if line is None:
                return
            yield line

    def close(self) -> None:
        close_watch(self._party, self._watch)


class AsyncApi(httpx.AsyncClient):
    """The client of an async function; see `Api`."""

    def __init__(self, party: Party, process: _Task | _AsyncioThread) -> None:
        self._party, self._process = party, process
        super().__init__(
            transport=_AsyncTransport(party, process),
            base_url=URL,
            headers=user_headers(party.name),
            trust_env=False,
            timeout=None,
        )

    async def sleep(self, seconds: float) -> None:
        await self._process.call(Sleep(self._party, self._party.seconds() + seconds))

    async def settle(self) -> None:
        await self._process.call(Settle(self._party))

    async def watch(self, path: str, **parameters: str) -> AsyncEvents:
        """The events of one watch, up to its end: `async for event in await api.watch(path)`."""
        request = self.build_request("GET", path, params={"watch": "1", **parameters})
        response = await self.send(request, stream=True)
        watch = watch_of(response)
        if watch is None:
            await response.aread()
            response.raise_for_status()
            raise RuntimeError(f"GET {path} is not a watch")
        return AsyncEvents(self._party, self._process, watch)


class AsyncEvents:
    """The events of a watch. Not a generator, because a crash would leave it unfinished until garbage collection."""

    def __init__(self, party: Party, process: _Task | _AsyncioThread, watch: Watch) -> None:
        self._party, self._process, self._watch = party, process, watch

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Any:
        ((_, line),) = await self._process.call(Read(self._party, (self._watch,)))
        if line is None:
            raise StopAsyncIteration
        return orjson.loads(line)

    def close(self) -> None:
        close_watch(self._party, self._watch)


class _AsyncTransport(httpx.AsyncBaseTransport):
    def __init__(self, party: Party, process: _Task | _AsyncioThread) -> None:
        self._party, self._process = party, process

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        reply: Reply = await self._process.call(Send(self._party, request))
        return reply.response(partial(_AsyncLines, self._party, self._process))


class _AsyncLines(httpx.AsyncByteStream):
    def __init__(self, party: Party, process: _Task | _AsyncioThread, watch: Watch) -> None:
        self._party, self._process, self._watch = party, process, watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            ((_, line),) = await self._process.call(Read(self._party, (self._watch,)))
            if line is None:
                return
            yield line

    async def aclose(self) -> None:
        close_watch(self._party, self._watch)


def watch_of(response: httpx.Response) -> Watch | None:
    """The watch that a response streams, if it is one."""
    return response.extensions.get(_EXTENSION)


def close_watch(party: Party, watch: Watch) -> None:
    watch.exchange.close()
    if watch in party.watches:
        party.watches.remove(watch)


class Informers:
    """A cache of some collections, for controllers that use no library: list, watch, and watch again.

    It has the content of the newest event, as informers of client-go do, so it is as old as the events are late.
    """

    def __init__(self, api: Api, paths: Sequence[str]) -> None:
        self._api, self._paths = api, paths
        self._objects: dict[str, dict[tuple[str, str], Any]] = {path: {} for path in paths}
        self._versions: dict[str, str] = {}
        self._watches: dict[str, Watch] = {}

    def __getitem__(self, path: str) -> list[Any]:
        """The objects of a collection, as far as this cache knows."""
        return [self._objects[path][key] for key in sorted(self._objects[path])]

    def update(self) -> None:
        """Apply all events that have arrived, or wait for the next one; the first call lists everything."""
        begins = not self._versions
        for path in self._paths:
            if path not in self._versions:
                self._list(path)
        for path in self._paths:
            if path not in self._watches:
                self._watch(path)
        if not begins:
            self._take()

    def _list(self, path: str) -> None:
        response = self._api.get(path, params={"resourceVersion": "0"})
        response.raise_for_status()
        found = response.json()
        self._objects[path] = {_key(one): one for one in found["items"]}
        self._versions[path] = found["metadata"]["resourceVersion"]

    def _watch(self, path: str) -> None:
        request = self._api.build_request(
            "GET", path, params={"watch": "1", "resourceVersion": self._versions[path]}
        )
        response = self._api.send(request, stream=True)
        watch = watch_of(response)
        if watch is None:
            response.read()
            response.raise_for_status()
            raise RuntimeError(f"GET {path} is not a watch")
        self._watches[path] = watch

    def _take(self) -> None:
        paths = {watch: path for path, watch in self._watches.items()}
        for watch, line in self._api.read_arrived(list(paths)):
            if self._watches.get(paths[watch]) is watch:
                self._apply(paths[watch], line)

    def _apply(self, path: str, line: bytes | None) -> None:
        if line is None:
            del self._watches[path]
            return
        event = orjson.loads(line)
        found = event["object"]
        if event["type"] == "ERROR":
            del self._watches[path]
            if found.get("code") == _GONE:
                del self._versions[path]
            return
        self._versions[path] = found["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            self._objects[path].pop(_key(found), None)
        elif event["type"] != "BOOKMARK":
            self._objects[path][_key(found)] = found


def _key(found: Any) -> tuple[str, str]:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]

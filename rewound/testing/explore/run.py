"""One run: decides at every request which party goes on and which faults happen, until no party writes any more.

At each step the server is idle and every party waits for something. Without a fault, the party that went on last goes
on again until it waits for events; then the next one does. Events of several watches arrive in the order of their
versions. When no party can go on, events that were held back arrive; then time passes, if a party sleeps; then the run
has settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import orjson
import outcome
import trio

from rewound.testing.explore import faults as kinds
from rewound.testing.explore.faults import SECONDS, Fault
from rewound.testing.explore.invariants import Broken, Checker
from rewound.testing.explore.parties import (
    Line,
    Operation,
    Party,
    Read,
    Reply,
    Send,
    Settle,
    Sleep,
    Stuck,
    Watch,
)
from rewound.testing.explore.still_server import RepeatableServer, quiet

WATCH: Final = "WATCH"  # the verb of a watch, in words
TICK: Final = 0.001  # seconds that each request takes
_TURN: Final = 50  # operations of one party in a row, while others could go on: it may never wait
_FOR_THE_SERVER: Final = 1.0  # seconds that its own controllers may put something off
_LAG: Final = 2  # a fault's number is that many operations
_NO_LOOP: Final = "no running event loop"  # says asyncio in trio
_ONE_BY_ONE: Final = 8  # numbers from this one on


@dataclass(slots=True)
class Step:
    """A description of consecutive operations of one party, or of one fault."""

    who: str  # "" for a fault
    what: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.who}: {', '.join(self.what)}" if self.who else self.what[0]


class Failed(Exception):
    """A run failed; the text says why."""


class Run:
    def __init__(
        self,
        server: RepeatableServer,
        parties: Sequence[Party],
        faults: Sequence[Fault],
        checker: Checker,
        *,
        most: int,
        may_raise: tuple[type[Exception], ...],
    ) -> None:
        """`most` is the limit of operations. Controllers that end with one of `may_raise` start again."""
        self._server, self._parties, self._checker = server, parties, checker
        self._faults = list(faults)
        self._next_fault = self._faults[0].after if faults else 0
        self._most, self._may_raise = most, may_raise
        self._last: Party = parties[0]
        self._in_a_row = 0
        self._woken: set[Party] = set()  # since somebody wrote
        self._server_waited = False  # its own controllers had time since somebody wrote
        self.count = 0  # operations
        self.steps: list[Step] = []

    async def run(self) -> Exception | None:
        """Run to the end; returns why it failed: a Failed, a Broken or a Stuck."""
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            try:
                for party in self._parties:
                    party.seconds = lambda: self._server.clock.seconds
                    party.start(nursery)
                while await self._go_on(nursery):
                    pass
            except (Failed, Broken, Stuck) as error:
                failure = error
            for party in self._parties:
                try:
                    if party.ended is None:
                        party.crash()
                except Stuck as error:
                    failure = error
        return failure

    async def _go_on(self, nursery: trio.Nursery) -> bool:
        """Complete one operation; returns False when the run has settled."""
        await quiet()
        head = self._checker.head
        self._checker.check_new()
        if self._checker.head != head:
            self._woken.clear()
            self._server_waited = False
        self._restart_ended(nursery)
        await quiet()
        ready = [one for party in self._in_turn() for one in party.operations if self._is_ready(one)]
        if not ready:
            return await self._wait_for_time()
        if self.count >= self._most:
            raise Failed(
                f"it does not settle: {self._most} requests and events, and somebody still goes on. "
                "A controller that writes in a loop, or two that fight? (most=... allows more)"
            )
        await self._perform(self._next_with_fault(ready), nursery)
        self.count += 1
        return True

    def _in_turn(self) -> list[Party]:
        """The parties, beginning with the one that went on last, unless it had a long turn: then it comes last."""
        index = self._parties.index(self._last)
        ordered = [*self._parties[index:], *self._parties[:index]]
        return [*ordered[1:], ordered[0]] if self._in_a_row >= _TURN else ordered

    def _is_ready(self, operation: Operation) -> bool:
        if isinstance(operation, Read):
            return any(self._arrives(watch) for watch in operation.watches)
        if isinstance(operation, Sleep):
            return operation.until <= self._server.clock.seconds
        return isinstance(operation, Send)

    def _arrives(self, watch: Watch) -> bool:
        is_open = self.count >= watch.held_until or watch.let_through > 0
        return is_open and watch.has_news and not watch.reported_end

    # Faults.

    def _next_with_fault(self, ready: list[Operation]) -> tuple[Operation, Fault | None]:
        """Choose the next operation, and the fault that applies to it."""
        if not self._faults or self.count < self._next_fault:
            return ready[0], None
        fault = self._faults[0]
        operation = ready[0]
        if fault.kind == kinds.TURN:
            others = [one for one in ready if one.party is not operation.party]
            if not others:
                return operation, None
            operation = others[fault.number % len(others)]
        elif not self._applies(fault, operation):
            return operation, None
        del self._faults[0]
        if self._faults:
            self._next_fault = self.count + 1 + self._faults[0].after
        return operation, fault

    def _applies(self, fault: Fault, operation: Operation) -> bool:
        party = operation.party
        if fault.kind == kinds.TIME:
            return True
        if party.is_test:
            return False
        match fault.kind:
            case kinds.CRASH:
                return True
            case kinds.LOST:
                return isinstance(operation, Send)
            case kinds.LAG | kinds.RECONNECT:
                return bool(_open_watches(party))
            case kinds.STALE:
                return isinstance(operation, Send) and _may_be_stale(operation.request)
        raise AssertionError(fault)

    async def _perform(self, chosen: tuple[Operation, Fault | None], nursery: trio.Nursery) -> None:
        operation, fault = chosen
        party = operation.party
        self._in_a_row = self._in_a_row + 1 if party is self._last else 0
        self._last = party
        match None if fault is None else fault.kind:
            case None | kinds.TURN:
                await self._complete(operation)
            case kinds.TIME:
                assert fault is not None
                seconds = SECONDS[fault.number % len(SECONDS)]
                self._fault(f"{seconds} s pass")
                await self._server.advance(seconds)
            case kinds.CRASH:
                assert fault is not None
                await self._crash(operation, nursery, after=bool(fault.number % 2))
            case kinds.LOST:
                assert fault is not None and isinstance(operation, Send)
                await self._lose(operation, after=not fault.number % 2)
            case kinds.LAG:
                assert fault is not None
                watch = _chosen(party, fault.number)
                watch.held_until = self.count + _LAG * (1 + fault.number)
                watch.one_by_one = fault.number >= _ONE_BY_ONE
                how = "later, one by one" if watch.one_by_one else "later"
                self._fault(f"events of {watch.words} reach {party.name} {how}")
                if self._is_ready(operation):
                    await self._complete(operation)
            case kinds.RECONNECT:
                assert fault is not None
                self._cut(party, _chosen(party, fault.number), fault.number)
            case kinds.STALE:
                assert fault is not None and isinstance(operation, Send)
                await self._complete_stale(operation, 1 + fault.number)

    async def _crash(self, operation: Operation, nursery: trio.Nursery, *, after: bool) -> None:
        party = operation.party
        if isinstance(operation, Send):
            words = _words(operation.request)
            if after:
                exchange = await self._send(operation.request)
                exchange.close()
                words += f" -> {exchange.status}"
            self._fault(f"{party.name} crashes {'after' if after else 'before'} its {words}")
        else:
            self._fault(f"{party.name} crashes while it waits for events or time")
        party.crash()
        await quiet()
        party.start(nursery)

    async def _lose(self, operation: Send, *, after: bool) -> None:
        party, request = operation.party, operation.request
        words = _words(request)
        error: httpx.TransportError
        if after:
            exchange = await self._send(request)
            exchange.close()
            self._fault(f"{party.name} does not get the reply to its {words} -> {exchange.status}")
            error = httpx.ReadError("the connection broke off before the response", request=request)
        else:
            self._fault(f"{party.name} cannot connect for its {words}")
            error = httpx.ConnectError("the connection was refused", request=request)
        party.operations.remove(operation)
        operation.complete(outcome.Error(error))

    def _cut(self, party: Party, watch: Watch, number: int) -> None:
        watch.cut = True
        watch.held_until = 0
        again = number // 4
        text = f"{watch.words} of {party.name} ends"
        versions = [found for line in watch.lines if (found := _version_of(line)) is not None]
        if again and versions:
            begin = versions[-again - 1] if len(versions) > again else _begin_of(watch)
            party.repeated[watch.words] = begin
            text += f"; the next one repeats the last {min(again, len(versions))} events"
        self._fault(text)

    async def _complete_stale(self, operation: Send, versions: int) -> None:
        version = max(self._checker.start, self._checker.head - versions)
        url = operation.request.url.copy_merge_params(
            {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
        )
        self._fault(f"{operation.party.name} gets the state of version {version} for its list")
        await self._complete(operation, _replaced(operation.request, url))

    # Operations.

    async def _complete(self, operation: Operation, request: httpx.Request | None = None) -> None:
        party = operation.party
        match operation:
            case Send():
                result: Any = await self._reply(party, request or operation.request)
            case Read():
                result = [self._next_event(operation)]
                while operation.all_arrived and any(map(self._arrives, operation.watches)):
                    result.append(self._next_event(operation))
            case _:
                result = None
                self._did(party, "wakes up" if isinstance(operation, Sleep) else "nobody writes any more")
        party.operations.remove(operation)
        operation.complete(outcome.Value(result))

    async def _send(self, request: httpx.Request) -> Any:
        self._server.clock.seconds += TICK
        return await self._server.send(request)

    async def _reply(self, party: Party, request: httpx.Request) -> Reply:
        words = _words(request)
        repeated = party.repeated.pop(words, None)
        if repeated is not None:
            url = request.url.copy_merge_params({"resourceVersion": repeated})
            request = _replaced(request, url)
        exchange = await self._send(request)
        self._did(party, f"{words} -> {exchange.status}" if exchange.status != 200 else words)
        if words.startswith(WATCH) and exchange.status == 200:
            watch = Watch(exchange, words)
            party.watches.append(watch)
            return Reply(exchange.status, exchange.headers, watch)
        return Reply(exchange.status, exchange.headers, bytes(exchange.body))

    def _next_event(self, operation: Read) -> Line:
        """Complete a read with the oldest of the next events of its watches."""
        watch = min(filter(self._arrives, operation.watches), key=_next_version)
        line = watch.take()
        if line is None:
            if watch in operation.party.watches:
                operation.party.watches.remove(watch)
            watch.exchange.close()
            watch.reported_end = True
            self._did(operation.party, f"sees the end of {watch.words}")
        else:
            self._did(operation.party, f"gets {_event_words(line)}")
        return watch, line

    # Restarts, and waiting.

    def _restart_ended(self, nursery: trio.Nursery) -> None:
        """Start controllers again whose requests failed. Raises Failed for any other error."""
        for party in self._parties:
            if not isinstance(party.ended, outcome.Error):
                continue
            error = party.ended.error
            if party.is_test or not isinstance(error, self._may_raise):
                text = str(error) if party.is_test and str(error) else f"{type(error).__name__}: {error}"
                if _NO_LOOP in text:
                    text += "; for controllers of asyncio, explore needs async_library='asyncio'"
                raise Failed(f"{party.name} failed: {text}") from error
            self._did(party, f"ends with {type(error).__name__} and starts again")
            self.count += 1  # a controller that always fails at once does not settle
            if self.count >= self._most:
                raise Failed(f"{party.name} ends again and again: {type(error).__name__}: {error}") from error
            party.close_watches()
            party.start(nursery)

    async def _wait_for_time(self) -> bool:
        """Deliver held events, or else let time pass, when no party can go on; returns False if the run has settled."""
        if self._deliver_held():
            return True
        if not self._server_waited:
            self._server_waited = True
            await self._server.advance(_FOR_THE_SERVER)
            return True
        sleeping = [
            one
            for party in self._parties
            for one in party.operations
            if isinstance(one, Sleep) and party not in self._woken
        ]
        if sleeping:
            first = min(sleeping, key=lambda one: one.until)
            self._woken.add(first.party)
            await self._server.advance(max(0.0, first.until - self._server.clock.seconds))
            return True
        settling = [one for party in self._parties for one in party.operations if isinstance(one, Settle)]
        for one in settling:
            await self._complete(one)
        return bool(settling)

    def _deliver_held(self) -> bool:
        """Deliver held events; returns False if no party waits for any."""
        held = [watch for party in self._parties for watch in party.watches if self.count < watch.held_until]
        changed = False
        for watch in held:
            if not watch.one_by_one or watch.next_line() is None:
                watch.held_until = 0
            elif watch.let_through:
                continue  # its controller does not read it any more
            else:
                watch.let_through = 1
            changed = True
        return changed

    # Descriptions of steps.

    def _did(self, party: Party, what: str) -> None:
        if not self.steps or self.steps[-1].who != party.name:
            self.steps.append(Step(party.name))
        self.steps[-1].what.append(what)

    def _fault(self, what: str) -> None:
        self.steps.append(Step("", [what]))


def _open_watches(party: Party) -> list[Watch]:
    return [watch for watch in party.watches if not watch.cut]


def _chosen(party: Party, number: int) -> Watch:
    watches = _open_watches(party)
    return watches[number % len(watches)]


def _replaced(request: httpx.Request, url: httpx.URL) -> httpx.Request:
    return httpx.Request(request.method, url, headers=request.headers, content=request.read())


def _may_be_stale(request: httpx.Request) -> bool:
    wanted = request.url.params
    return (
        request.method == "GET"
        and wanted.get("resourceVersion") == "0"
        and not {"watch", "continue", "resourceVersionMatch"} & set(wanted)
    )


def _begin_of(watch: Watch) -> str:
    return str(watch.exchange.request.url.params.get("resourceVersion", "0"))


def _version_of(line: bytes) -> str | None:
    metadata = orjson.loads(line)["object"].get("metadata") or {}
    version: str | None = metadata.get("resourceVersion")
    return version


def _next_version(watch: Watch) -> int:
    line = None if watch.cut else watch.next_line()
    return int((_version_of(line) if line is not None else None) or 0)


def _event_words(line: bytes) -> str:
    event = orjson.loads(line)
    metadata = event["object"].get("metadata") or {}
    where = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
    return f"{event['type']} {event['object'].get('kind', '')} {where}".rstrip()


def _words(request: httpx.Request) -> str:
    """A short description of a request: PUT configmaps/default/web."""
    parts = request.url.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else parts
    named = len(parts) > 1
    if parts[0] == "namespaces" and len(parts) > 2:
        named = len(parts) > 3
        parts = [parts[2], parts[1], *parts[3:]]
    method = request.method
    if method == "GET" and request.url.params.get("watch", "false").lower() not in ("0", "f", "false"):
        method = WATCH
    elif method == "GET" and not named:
        method = "LIST"
    return f"{method} {'/'.join(parts)}"

"""What the server does for clients that have not authenticated, and when it makes them wait.

The processor time of every connection on which no request has been authenticated yet is measured: handshakes, heads,
frames, refused requests. It is owed by the client's address (the /64 network of an IPv6 address) and by all such
clients together, and what is owed falls with time, by `WorkShares`. A connection reads only while neither owes more
than its burst, and while all together have used no more than `step` since the event loop last polled its sockets; else
it waits for its turn. Addresses take turns, and the connections of one address as `_Waiting` says: a client that
arrives does not wait for the thousands that arrived before it from the same address. So between two polls all of them
hold the event loop for no longer than `step` and one turn more, also on a machine that is so busy that the server gets
less than their share.

The first authenticated request (`Peer.known`) ends this for its connection, and pays back what it owed: clients that
authenticate are never delayed after that, whoever else has their address (NAT, a proxy, this machine). Nothing is
refused, and a delay does not count as the client's: it extends the deadline. A stopping server delays nobody.

`Transport.receive` calls `pause` before it waits for bytes and `turn` when there are some; a protocol calls `again`
between requests that have arrived together. Rejected: weights for bytes, frames and requests, because an attack is what
nobody has weighed; limits of requests or handshakes for each address, because many clients may have one address
(docs/decisions/0054-unauthenticated-work.md).
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from ipaddress import IPv6Address
from types import coroutine
from typing import Any, Protocol, TypeVar

import outcome
import trio
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from rewound.gateway.message import Peer

T = TypeVar("T")

# Addresses without connections are forgotten when there are more than this, and twice as many as the last time.
_ADDRESSES = 1024
# Seconds of work within which a client that connects to send a request has authenticated, several times over.
_ARRIVAL = 0.02
# Turns given between two polls, if each takes little.
_TURNS = 16


@dataclass(frozen=True, slots=True)
class WorkShares:
    """Seconds of processor time in a second of time, and what may be owed beyond, in seconds."""

    address: float = 0.25
    address_burst: float = 0.05  # 16 handshakes at once, and more as soon as they have authenticated
    everyone: float = 0.5
    everyone_burst: float = 0.02
    step: float = 0.004


class Delayed(Protocol):
    """The transport of a connection."""

    deadline: float
    unauthenticated: UnauthenticatedClient | None


class _Account:
    """What an address owes, or all addresses, and the connections that wait because of it."""

    __slots__ = ("_at", "_burst", "_share", "connections", "owed", "queued", "waiting")

    def __init__(self, share: float, burst: float, now: float) -> None:
        self._share = share
        self._burst = burst
        self._at = now
        self.owed = 0.0
        self.connections = 0
        self.waiting = _Waiting()
        self.queued = False  # one of those that `_next` looks at

    def due(self, now: float) -> float:
        """When it owes no more than its burst; `now` if that is so."""
        self.owed = max(0.0, self.owed - self._share * (now - self._at))
        self._at = now
        return now + max(0.0, self.owed - self._burst) / self._share

    def add(self, seconds: float) -> None:
        """Add what a connection has done; less than nothing when it has authenticated."""
        self.owed = max(0.0, self.owed + seconds)


class _Line:
    """Takes the newest three times and then the oldest: who comes after a burst gets through at once, and none waits
    for ever. Who leaves is removed: the oldest one would be found too late, when more arrive than have turns.
    """

    __slots__ = ("_clients", "_taken")

    def __init__(self) -> None:
        self._clients: OrderedDict[UnauthenticatedClient, None] = OrderedDict()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, client: UnauthenticatedClient) -> None:
        self._clients[client] = None

    def take(self) -> UnauthenticatedClient:
        self._taken += 1
        return self._clients.popitem(last=bool(self._taken % 4))[0]

    def remove(self, client: UnauthenticatedClient) -> None:
        self._clients.pop(client, None)


class _Waiting:
    """The connections of one address that wait for their turns.

    Three of four turns go to those that have begun to arrive, so that few are in progress at a time and each ends soon:
    with the same turns for all, five thousand handshakes would all end last. The fourth goes to new ones. Those that
    have cost more than an arrival does have what is left, and one turn in sixteen, the least work first.
    """

    __slots__ = ("_begun", "_costly", "_new", "_number", "_taken")

    def __init__(self) -> None:
        self._new, self._begun = _Line(), _Line()
        self._costly: list[tuple[float, int, UnauthenticatedClient]] = []
        self._number = self._taken = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._begun) + len(self._costly)

    def add(self, client: UnauthenticatedClient) -> None:
        self._number += 1
        if client.spent > _ARRIVAL:
            heappush(self._costly, (client.spent, self._number, client))
        elif client.turns:
            self._begun.add(client)
        else:
            self._new.add(client)

    def remove(self, client: UnauthenticatedClient) -> None:
        """It waits no more. A costly one stays until its turn: the least work is the next, so that this is soon."""
        self._new.remove(client)
        self._begun.remove(client)

    def take(self) -> UnauthenticatedClient:
        self._taken += 1
        arriving = len(self._new) + len(self._begun)
        if self._costly and (not arriving or self._taken % 16 == 0):
            return heappop(self._costly)[2]
        if self._begun and (self._taken % 4 or not self._new):
            return self._begun.take()
        return self._new.take()


class UnauthenticatedWork:
    """The accounts of one server."""

    def __init__(self, shares: WorkShares | None, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` is the processor time of the event loop. Without shares nobody is delayed."""
        self.clock = clock
        self.delays = 0  # turns that clients had to wait for
        self._shares = shares
        self._everyone = _Account(shares.everyone, shares.everyone_burst, 0.0) if shares else None
        self._used = 0.0  # since the last poll at which `run` has looked
        self._usual = 0.0  # seconds that a turn takes, of the newest ones
        self._addresses: dict[str, _Account] = {}
        self._forget_above = _ADDRESSES
        self._ready: deque[_Account] = deque()  # with connections that wait, to be looked at
        self._indebted: list[tuple[float, int, _Account]] = []  # a heap: the same, and when they may go on
        self._number = 0
        self._changed = trio.Event()
        self._stop = trio.Event()

    @property
    def waiting(self) -> int:
        """How many connections wait for their turn."""
        return sum(len(account.waiting) for account in self._addresses.values())

    def accept(self, transport: Delayed, peer: Peer) -> None:
        """Measure the work for a new connection from now on. Those of Unix sockets have no address, and no limit."""
        if self._shares is not None and peer.address:
            account = self._account(address_key(peer.address), self._shares)
            account.connections += 1
            transport.unauthenticated = UnauthenticatedClient(self, account, transport, peer)

    def _account(self, key: str, shares: WorkShares) -> _Account:
        account = self._addresses.get(key)
        if account is None:
            if len(self._addresses) >= self._forget_above:
                self._forget()
            account = _Account(shares.address, shares.address_burst, trio.current_time())
            self._addresses[key] = account
        return account

    def _forget(self) -> None:
        now = trio.current_time()
        for key, account in list(self._addresses.items()):
            if not account.connections and account.due(now) == now and not account.owed:
                del self._addresses[key]
        self._forget_above = max(_ADDRESSES, 2 * len(self._addresses))

    def charge(self, account: _Account, seconds: float) -> None:
        if seconds > 0:
            self._used += seconds
            self._usual += (seconds - self._usual) * (0.5 if seconds > self._usual else 0.05)
        account.add(seconds)
        if self._everyone is not None:
            self._everyone.add(seconds)

    def may_go_on(self, account: _Account) -> bool:
        """Whether a connection of this address may have its turn at once. Those that wait go first."""
        everyone, shares = self._everyone, self._shares
        if everyone is None or shares is None:
            return True
        if self._used > shares.step or self._ready or account.waiting:
            return False
        if self._stop.is_set():
            return True
        now = trio.current_time()
        return everyone.due(now) <= now and account.due(now) <= now

    def wait(self, account: _Account, client: UnauthenticatedClient) -> None:
        self.delays += 1
        if not account.queued:
            account.queued = True
            self._ready.append(account)
        account.waiting.add(client)
        self._changed.set()

    async def run(self) -> None:
        """Give turns to the connections that wait: between two polls of the sockets one, or as many as take a step."""
        everyone = self._everyone
        if everyone is None:
            return
        while True:
            self._changed = trio.Event()
            self._used = 0.0
            now = trio.current_time()
            account = self._next(now)
            if account is not None and (due := everyone.due(now)) > now and not self._stop.is_set():
                self._ready.appendleft(account)
                with trio.move_on_at(due):
                    await self._stop.wait()
            elif account is not None:
                self._give_turns(account, now)
                await checkpoint()
                await (
                    checkpoint()
                )  # tasks that run after one checkpoint have no order: now it has had its turn
            else:
                with trio.move_on_at(self._indebted[0][0] if self._indebted else float("inf")):
                    await self._changed.wait()

    def _give_turns(self, account: _Account | None, now: float) -> None:
        assert self._shares is not None
        most = max(1, min(_TURNS, int(self._shares.step / self._usual))) if self._usual else 1
        while account is not None and most:
            self._give_turn(account)
            most -= 1
            account = self._next(now) if most else None

    def _next(self, now: float) -> _Account | None:
        """The address whose turn it is; those that owe too much wait until they do not."""
        ready, indebted = self._ready, self._indebted
        while indebted and (self._stop.is_set() or indebted[0][0] <= now):
            ready.append(heappop(indebted)[2])
        while ready:
            account = ready.popleft()
            if not account.waiting:
                account.queued = False  # all have left
                continue
            if self._stop.is_set() or (due := account.due(now)) <= now:
                return account
            self._number += 1
            heappush(indebted, (due, self._number, account))
        return None

    def _give_turn(self, account: _Account) -> None:
        while account.waiting:
            if account.waiting.take().wake():
                break
        account.queued = bool(account.waiting)
        if account.queued:
            self._ready.append(account)

    def stop(self) -> None:
        """The server stops: nobody waits any more for what is owed. They still take turns: five thousand handshakes
        in one pass held the event loop for 5.7 s.
        """
        self._stop.set()
        self._changed.set()


class UnauthenticatedClient:
    """A connection on which no request has been authenticated."""

    __slots__ = (
        "_account",
        "_began",
        "_interruptible",
        "_peer",
        "_task",
        "_transport",
        "_work",
        "spent",
        "turns",
    )

    def __init__(self, work: UnauthenticatedWork, account: _Account, transport: Delayed, peer: Peer) -> None:
        self._work = work
        self._account = account
        self._transport = transport
        self._peer = peer
        self._began: float | None = work.clock()  # None between turns
        self._task: trio.lowlevel.Task | None = None  # that waits for a turn
        self._interruptible = False
        self.spent = 0.0
        self.turns = 0  # that it has had

    @property
    def waits(self) -> bool:
        return self._task is not None

    def pause(self) -> None:
        """The turn is over, or others run for a while: count what was done in it."""
        began, self._began = self._began, None
        if began is not None:
            self._charge(self._work.clock() - began)
        self._end_if_known()

    def _end_if_known(self) -> None:
        """A request has been authenticated: pay back what the connection owes."""
        if self._peer.known and self._transport.unauthenticated is self:
            self._work.charge(self._account, -self.spent)
            self.end()

    def close(self) -> None:
        """The connection ends."""
        self.interrupt()
        self.pause()
        self.end()

    def end(self) -> None:
        """Measure no more of it."""
        if self._transport.unauthenticated is self:
            self._transport.unauthenticated = None
            self._account.connections -= 1

    def _charge(self, seconds: float) -> None:
        if self._transport.unauthenticated is self:
            self.spent += seconds
            self._work.charge(self._account, seconds)

    async def turn(self, *, interruptible: bool = True) -> None:
        """Wait until it is the turn of this connection. ClosedResourceError if it is interrupted."""
        if not self._work.may_go_on(self._account) and not self._peer.known:
            await self._wait(interruptible)
        self.turns += 1
        self._began = self._work.clock()

    async def again(self) -> None:
        """End the turn, and wait for another one: between requests that have arrived together."""
        self.pause()
        if self._transport.unauthenticated is self:
            await self.turn(interruptible=False)

    async def _wait(self, interruptible: bool) -> None:
        began = trio.current_time()
        self._task, self._interruptible = current_task(), interruptible
        self._work.wait(self._account, self)
        try:
            await wait_task_rescheduled(lambda _: Abort.SUCCEEDED)
        finally:
            if self._task is not None:  # cancelled
                self._account.waiting.remove(self)
            self._task = None
            self._transport.deadline += trio.current_time() - began

    def wake(self) -> bool:
        """Give it its turn; False if it does not wait any more."""
        if self._task is None:
            return False
        reschedule(self._task)
        self._task = None
        return True

    def interrupt(self) -> None:
        if self._task is not None and self._interruptible:
            reschedule(self._task, outcome.Error(trio.ClosedResourceError()))
            self._task = None
            self._account.waiting.remove(self)

    def begin(self) -> None:
        """Go on with a turn after a pause."""
        self._began = self._work.clock()

    @coroutine
    def measured(self, steps: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a handler between turns, and count its steps until it has authenticated its request.

        What others do while it waits does not count.
        """
        advance = partial(steps.send, None)
        while True:
            began = self._work.clock()
            try:
                trap = advance()
            except StopIteration as result:
                return result.value  # type: ignore[no-any-return]
            finally:
                self._charge(self._work.clock() - began)
                self._end_if_known()
            try:
                advance = partial(steps.send, (yield trap))
            except BaseException as error:
                advance = partial(steps.throw, error)


def address_key(address: str) -> str:
    """Whose account an address has: a client may have all addresses of an IPv6 network."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address.partition("%")[0])
    return str(parsed.ipv4_mapped or parsed.packed[:8].hex(":", 2))

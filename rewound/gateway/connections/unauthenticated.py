"""Limits the work that the server does for unauthenticated clients, and makes them wait in turns.

The processor time of every connection without an authenticated request is measured: handshakes, heads, frames,
refused requests. It is charged to the client's address (for IPv6, its /64 network) and to all such clients together,
and these debts decrease with time, at the rates of `WorkShares`. A connection reads only while neither debt exceeds
its burst, and while all together have used no more than `step` since the event loop last polled its sockets;
otherwise it waits for its turn. Addresses take turns, and the connections of one address as `_Waiting` describes: a
new client does not wait for the thousands that arrived before it from the same address. So between two polls all of
them together hold the event loop for at most `step` and one more turn, even on a machine so busy that the server gets
less than their share.

The first authenticated request (`Peer.known`) ends this for its connection and refunds its debt: clients that
authenticate are never delayed after that, whoever shares their address (NAT, a proxy, this machine). Nothing is
refused, and a delay is not held against the client: it extends the deadline. A stopping server delays nobody.

`Transport.receive` calls `pause` before it waits for bytes and `turn` when there are some; a protocol calls `next_turn`
between requests that arrived together. Rejected: weights for bytes, frames and requests, because an attack uses what
nobody has weighted; limits of requests or handshakes per address, because many clients may share one
(docs/decisions/0054-unauthenticated-work.md).
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from heapq import heappop, heappush
from ipaddress import IPv6Address
from types import coroutine
from typing import Any, Protocol, TypeVar

import msgspec
import outcome
import trio
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from rewound.gateway.message import Peer

T = TypeVar("T")

# Addresses without connections are removed when there are more than this, and twice as many as after the last
# removal.
_ADDRESSES = 1024
# Seconds of work: several times what a client needs to connect and authenticate its first request.
_ARRIVAL = 0.02
# Turns given between two polls at most, if each takes little time.
_TURNS = 16


class WorkShares(msgspec.Struct, frozen=True):
    """Shares of processor time (seconds per second), and the debts allowed beyond them (seconds)."""

    address: float = 0.25
    address_burst: float = 0.05  # 16 handshakes at once, and more as soon as those have authenticated
    everyone: float = 0.5
    everyone_burst: float = 0.02
    step: float = 0.004


class Delayed(Protocol):
    """The transport of a delayed connection."""

    deadline: float
    unauthenticated: UnauthenticatedClient | None


class _Account:
    """The debt of an address, or of all addresses, and the connections that wait because of it."""

    __slots__ = ("_at", "_burst", "_share", "connections", "owed", "queued", "waiting")

    def __init__(self, share: float, burst: float, now: float) -> None:
        self._share = share
        self._burst = burst
        self._at = now
        self.owed = 0.0
        self.connections = 0
        self.waiting = _Waiting()
        self.queued = False  # it is in `_ready` or `_indebted`

    def due(self, now: float) -> float:
        """When its debt is no more than its burst; `now` if it already is."""
        self.owed = max(0.0, self.owed - self._share * (now - self._at))
        self._at = now
        return now + max(0.0, self.owed - self._burst) / self._share

    def add(self, seconds: float) -> None:
        """Add the work of a connection; negative when it has authenticated."""
        self.owed = max(0.0, self.owed + seconds)


class _Queue:
    """A queue that takes the newest three times and then the oldest.

    A client that arrives after a burst gets through at once, and none waits forever. A client that leaves is removed,
    because the oldest would be reached too late if more arrive than get turns.
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

    Three of four turns go to those that have already had one, so that few are in progress at a time and each finishes
    soon: with equal turns for all, five thousand handshakes would all finish last. The fourth goes to new ones. Those
    that have cost more than an arrival should get the remaining turns, and one in sixteen, the least work first.
    """

    __slots__ = ("_begun", "_costly", "_new", "_number", "_taken")

    def __init__(self) -> None:
        self._new, self._begun = _Queue(), _Queue()
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
        """Remove a client that no longer waits. A costly one stays until its turn, which is skipped then."""
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
    """The debts and the waiting connections of one server."""

    def __init__(self, shares: WorkShares | None, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` returns the processor time of the event loop. Without shares nobody is delayed."""
        self.clock = clock
        self.delays = 0  # how often clients had to wait for a turn
        self._shares = shares
        self._everyone = _Account(shares.everyone, shares.everyone_burst, 0.0) if shares else None
        self._used = 0.0  # seconds used since `run` last started a round
        self._average = 0.0  # moving average of the seconds that a turn takes
        self._addresses: dict[str, _Account] = {}
        self._forget_above = _ADDRESSES
        self._ready: deque[_Account] = deque()  # with waiting connections, in the order of their turns
        # A heap of the others with waiting connections, by when their debt allows a turn.
        self._indebted: list[tuple[float, int, _Account]] = []
        self._number = 0
        self._changed = trio.Event()
        self._stop = trio.Event()

    @property
    def waiting(self) -> int:
        """How many connections are waiting for a turn."""
        return sum(len(account.waiting) for account in self._addresses.values())

    def accept(self, transport: Delayed, peer: Peer) -> None:
        """Measure the work for a new connection from now on. Unix sockets have no address, and no limit."""
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
            self._average += (seconds - self._average) * (0.5 if seconds > self._average else 0.05)
        account.add(seconds)
        if self._everyone is not None:
            self._everyone.add(seconds)

    def may_proceed(self, account: _Account) -> bool:
        """Whether a connection of this address may have its turn at once. Those that wait come first."""
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
        """Give turns to waiting connections: between two polls of the sockets one, or as many as take `step`."""
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
                await checkpoint()  # two checkpoints, because tasks woken by one run in any order
            else:
                with trio.move_on_at(self._indebted[0][0] if self._indebted else float("inf")):
                    await self._changed.wait()

    def _give_turns(self, account: _Account | None, now: float) -> None:
        assert self._shares is not None
        most = max(1, min(_TURNS, int(self._shares.step / self._average))) if self._average else 1
        while account is not None and most:
            self._give_turn(account)
            most -= 1
            account = self._next(now) if most else None

    def _next(self, now: float) -> _Account | None:
        """The next address in turn; those with too much debt wait until it has decreased."""
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
        """Stop delaying clients because of their debts.

        They still take turns: five thousand handshakes in one pass held the event loop for 5.7 s.
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
        self._began: float | None = work.clock()  # start of the current turn; None between turns
        self._task: trio.lowlevel.Task | None = None  # the task that waits for a turn
        self._interruptible = False
        self.spent = 0.0
        self.turns = 0  # turns that it has had

    @property
    def waits(self) -> bool:
        return self._task is not None

    def pause(self) -> None:
        """Charge the work of a turn that is over, or is interrupted by other tasks."""
        began, self._began = self._began, None
        if began is not None:
            self._charge(self._work.clock() - began)
        self._end_if_authenticated()

    def _end_if_authenticated(self) -> None:
        """Refund the debt if a request has been authenticated."""
        if self._peer.known and self._transport.unauthenticated is self:
            self._work.charge(self._account, -self.spent)
            self.end()

    def close(self) -> None:
        """Stop measuring, because the connection ends."""
        self.interrupt()
        self.pause()
        self.end()

    def end(self) -> None:
        """Stop measuring this connection."""
        if self._transport.unauthenticated is self:
            self._transport.unauthenticated = None
            self._account.connections -= 1

    def _charge(self, seconds: float) -> None:
        if self._transport.unauthenticated is self:
            self.spent += seconds
            self._work.charge(self._account, seconds)

    async def turn(self, *, interruptible: bool = True) -> None:
        """Wait until it is this connection's turn. Raises ClosedResourceError if interrupted."""
        if not self._work.may_proceed(self._account) and not self._peer.known:
            await self._wait(interruptible)
        self.turns += 1
        self._began = self._work.clock()

    async def next_turn(self) -> None:
        """End the turn and wait for another one, between requests that arrived together."""
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
        """Give it its turn; return False if it no longer waits."""
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
        """Continue a turn after a pause."""
        self._began = self._work.clock()

    @coroutine
    def measured(self, steps: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a handler between turns, and charge its steps until it has authenticated its request.

        The work of other tasks while it waits is not charged.
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
                self._end_if_authenticated()
            try:
                advance = partial(steps.send, (yield trap))
            except BaseException as error:
                advance = partial(steps.throw, error)


def address_key(address: str) -> str:
    """The key of an address: one client may have all addresses of an IPv6 /64 network."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address.partition("%")[0])
    return str(parsed.ipv4_mapped or parsed.packed[:8].hex(":", 2))

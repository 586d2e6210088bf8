"""The memory that requests may make the server hold: large bodies, what is decoded from them, and unread responses.

A request takes bytes from the server's `MemoryBudget` before it makes the server hold them, and its connection
returns them when the response has been sent or the connection has ended. Small amounts are not counted: `Limits`
bounds the number of connections and streams, and so what they may hold uncounted (`SMALL`). `ProcessMemory` measures
what is not counted: above the limit of the process no request takes anything.

No user can take everything: one user may hold `USER_SHARE` of the budget, and all unauthenticated and anonymous
requests together `UNAUTHENTICATED_SHARE`.

With several workers, each has a part of the budget, which grows when requests wait or most of it is held
(`actors.flowcontrol.leases`). The shares are of that part, so that they hold for all workers together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from math import ceil
from typing import NoReturn, Protocol

import msgspec
import trio

from rewound.actors.errors import RequestError
from rewound.actors.flowcontrol.leases import Holder as LeaseHolder
from rewound.actors.identity import ANONYMOUS
from rewound.gateway.memory.process import ProcessMemory
from rewound.gateway.message import Request

SMALL = 64 * 1024
USER_SHARE = 1 / 2
UNAUTHENTICATED_SHARE = 1 / 8
# How long a request waits for memory before it is refused.
MAX_WAIT = 10.0
# How often the first of a user's waiting requests looks for memory whose release was not announced: a request before
# it was cancelled, or the process uses less.
_LOOK_AGAIN = 1.0
# Requests that wait for memory; more are refused at once, because every release looks at all of them.
MAX_WAITING = 1000
# The part of the memory limit that requests may hold. The rest is for the process itself, its threads and
# connections.
BUDGET_SHARE = 1 / 2

_UNAUTHENTICATED = ("", ANONYMOUS)
# Once requests have held this much at once, malloc keeps memory that is worth returning to the kernel. The next large
# response would need it again at once, so this waits until there was none for some seconds.
MUCH = 1 << 20
REST = 5.0
NO_LIMIT = 1 << 62
# The quota shared by all workers, and the bytes in one of its units.
MEMORY = "memory"
UNIT = 1 << 20
NO_MEMORY = "the server uses as much memory as its limit allows, please try again later"
NO_ROOM = "the server holds as much for other requests as its memory limit allows, please try again later"
USER_NO_ROOM = (
    "your other requests hold as much of the server's memory as one user may, please try again later"
)


class TooManyRequests(RequestError):
    """There is no memory for the request now; the client should retry."""

    def __init__(self, message: str) -> None:
        self.message = message


class MemoryStatistics(msgspec.Struct, frozen=True):
    total: int
    held: int
    most_held: int
    waiting: int
    refused: int
    limit: int  # limit of the process
    used: int  # by the process


class Holder(Protocol):
    """A request, or something else that the server holds for a user."""

    user: str
    reserved: int


class _Waiter(msgspec.Struct):
    request: Request
    size: int
    parked: bool = True  # its task sleeps; otherwise it was cancelled, or is about to look for memory itself


def _share_of(user: str) -> float:
    return UNAUTHENTICATED_SHARE if user in _UNAUTHENTICATED else USER_SHARE


def _units(size: int) -> int:
    return -(-size // UNIT)


class MemoryBudget:
    def __init__(self, total: int, process: ProcessMemory | None = None) -> None:
        self._total = self._limit = total  # bytes of this process, and of all workers
        self._ask: Callable[[], None] | None = None  # asks other workers for more
        self.process = process or ProcessMemory(NO_LIMIT)
        self.held = 0  # bytes
        self._most = self._refused = 0
        self._much = trio.Event()  # requests have held MUCH since the event was made
        self._by_user: dict[str, int] = {}
        self._waiting: OrderedDict[trio.lowlevel.Task, _Waiter] = OrderedDict()

    @classmethod
    def of_limit(cls, limit: int) -> MemoryBudget:
        """The budget of a server whose process may use `limit` bytes."""
        return cls(int(limit * BUDGET_SHARE), ProcessMemory(limit))

    def lease(self, leases: LeaseHolder) -> None:
        """Make this the budget of one of several workers."""
        self._total, self._ask = 0, leases.ask
        leases.lease(MEMORY).attach(self)

    def allow(self, units: int, limit: int) -> None:
        """Set the units of this worker, and the limit of all workers."""
        self._total = units * UNIT
        self._limit = limit * UNIT or self._limit  # 0: not known yet
        if self._waiting:
            self._serve_waiting()

    def demand(self) -> tuple[int, int, int]:
        """The units in use, those wanted, and those that the first waiting request needs.

        Once more than half is in use, twice that is wanted, because many requests are refused at once when memory
        runs out.
        """
        total, need, users = self.held, 0, dict(self._by_user)
        used = self._total_for(total, users)
        for waiter in self._waiting.values():
            total += waiter.size
            users[waiter.request.user] = users.get(waiter.request.user, 0) + waiter.size
            need = need or self._total_for(total, users)
        wanted = max(self._total_for(total, users), 2 * used if 2 * used > self._total else 0)
        return _units(used), _units(min(wanted, self._limit)), _units(min(need, self._limit))

    def _total_for(self, held: int, users: Mapping[str, int]) -> int:
        """The smallest budget in which this fits."""
        return max([held, *(ceil(size / _share_of(user)) for user, size in users.items())])

    def take(self, request: Holder, size: int) -> None:
        """Count `size` more bytes for a request. Raises TooManyRequests if there is no memory for them now."""
        if not self.try_take(request, size):
            self._refused += 1
            raise TooManyRequests(self._reason(request, size))

    def check_room(self, request: Holder, size: int) -> None:
        """Raise TooManyRequests if there is no memory for `size` more bytes now; counts nothing."""
        if not self._has_room(request, size):
            self._refused += 1
            raise TooManyRequests(self._reason(request, size))

    def _has_room(self, request: Holder, size: int) -> bool:
        if self.held + size > self._total or self._of_user(request.user) + size > self._share(request.user):
            return False
        return size <= SMALL or self.process.has_room(size)

    def try_take(self, request: Holder, size: int) -> bool:
        if not self._has_room(request, size):
            if self._ask is not None:
                self._ask()
            return False
        self.held += size
        if self._ask is not None and 2 * self.held > self._total:
            self._ask()
        self._most = max(self._most, self.held)
        if self.held >= MUCH:
            self._much.set()
        self._by_user[request.user] = self._of_user(request.user) + size
        request.reserved += size
        return True

    async def wait_for(self, request: Request, size: int) -> None:
        """Count `size` more bytes as soon as there is memory. Raises TooManyRequests after a while.

        Requests of one user are served in order; none waits because another user's share is used up.
        """
        if size > self._limit * _share_of(request.user):
            self.take(request, size)  # raises: there will never be enough
        if not self._is_behind(request.user) and self.try_take(request, size):
            return
        if len(self._waiting) < MAX_WAITING and await self._wait(request, size):
            return
        self._refused += 1
        raise TooManyRequests(self._reason(request, size))

    def _is_behind(self, user: str) -> bool:
        return bool(self._waiting) and any(one.request.user == user for one in self._waiting.values())

    async def _wait(self, request: Request, size: int) -> bool:
        task = trio.lowlevel.current_task()
        waiter = self._waiting[task] = _Waiter(request, size)

        def abort(_: object) -> trio.lowlevel.Abort:
            waiter.parked = False  # the task is scheduled: it must not be scheduled again
            return trio.lowlevel.Abort.SUCCEEDED

        due = trio.current_time() + MAX_WAIT
        try:
            while (now := trio.current_time()) < due:
                with trio.move_on_at(min(due, now + _LOOK_AGAIN)):
                    waiter.parked = True
                    await trio.lowlevel.wait_task_rescheduled(abort)
                    return True
                if self._is_first(request) and self.try_take(request, size):
                    return True
        finally:
            self._waiting.pop(task, None)
        return False

    def _is_first(self, request: Request) -> bool:
        """Whether no other request of the same user has waited longer."""
        return (
            next(one.request for one in self._waiting.values() if one.request.user == request.user) is request
        )

    async def trim_after_work(self) -> NoReturn:
        """Return what malloc keeps to the kernel whenever requests have held MUCH, and then not for a while."""
        while True:
            await self._much.wait()
            while self._much.is_set():
                self._much = trio.Event()
                await trio.sleep(REST)
            self.process.trim()

    def release(self, request: Holder, size: int | None = None) -> None:
        """Return some of the bytes of a request, or all of them."""
        size = request.reserved if size is None else min(size, request.reserved)
        if not size:
            return
        request.reserved -= size
        self.held -= size
        self._subtract(request.user, size)
        if self._waiting:
            self._serve_waiting()

    def assign(self, request: Request, user: str) -> None:
        """Count what a request holds for this user, because it has been authenticated."""
        if request.reserved:
            self._subtract(request.user, request.reserved)
            self._by_user[user] = self._of_user(user) + request.reserved
        request.user = user

    def _subtract(self, user: str, size: int) -> None:
        left = self._of_user(user) - size
        if left:
            self._by_user[user] = left
        else:
            del self._by_user[user]

    def statistics(self) -> MemoryStatistics:
        process = self.process
        return MemoryStatistics(
            self._total,
            self.held,
            self._most,
            len(self._waiting),
            self._refused + process.refused,
            process.limit,
            process.used,
        )

    @property
    def unauthenticated_share(self) -> int:
        return self._share("")

    def _of_user(self, user: str) -> int:
        return self._by_user.get(user, 0)

    def _share(self, user: str) -> int:
        return int(self._total * _share_of(user))

    def _reason(self, request: Holder, size: int) -> str:
        over = self._of_user(request.user) + size > self._share(request.user)
        return USER_NO_ROOM if over and request.user else NO_ROOM

    def _serve_waiting(self) -> None:
        passed: set[str] = set()
        for task, waiter in list(self._waiting.items()):
            user = waiter.request.user
            if user in passed:
                continue
            if not (waiter.parked and self.try_take(waiter.request, waiter.size)):
                passed.add(user)
            else:
                del self._waiting[task]
                trio.lowlevel.reschedule(task)

"""Which objects are large, and the worker thread that works on them, one piece at a time, beside the event loop.

Decoding, patching, validating and deciding take a microsecond per byte or more. Below `LARGE_BYTES` the event loop does
them itself, because the hop to a thread would cost more than the work. Larger pieces wait here for the one thread:
several threads would only compete for the interpreter lock, and each would delay the event loop.

Users take turns, so one user's many large requests delay another user's request by at most one piece. The number of
waiting pieces is bounded, in total and per user.

The time that an object takes depends on its values more than on its bytes. Some of it is spent in single calls of C
code, which hold the interpreter lock: parsing and freeing take up to half a microsecond per value. `MAX_VALUES` keeps
the longest of these calls at about 50 ms. A CustomResourceDefinition of 1.5 MB has about 50,000 values.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import orjson
import trio

from rewound.actors.errors import Overloaded, TooLarge
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.time_limit import run_limited

# About a millisecond of work, which other requests may wait for.
LARGE_BYTES: Final = 64 * 1024
MAX_VALUES: Final = 100_000
# For a stored object, and for a body that replaces one: managedFields has up to one value per value that a client
# sends.
MAX_STORED_VALUES: Final = 2 * MAX_VALUES
# Bodies with more values are large, however short: validating one value takes up to 50 microseconds.
MANY_VALUES: Final = 600
# Shorter bodies need not be counted: each value takes at least two bytes, a digit and a comma.
COUNTED_BYTES: Final = 2 * MANY_VALUES
# The largest piece takes a few tenths of a second, so the last one in the queue waits about one request timeout.
MAX_WAITING: Final = 256
MAX_WAITING_OF_USER: Final = 64
# Waiting commands do not hold their object, and a deletecollection sends many at once.
MAX_WAITING_COMMANDS: Final = 4096

T = TypeVar("T")


def is_large(raw: bytes) -> bool:
    """Whether this JSON text must be decoded and decided in a worker thread."""
    size = len(raw)
    return size > LARGE_BYTES or (size > COUNTED_BYTES and _separators(raw) > MANY_VALUES)


def is_large_object(value: object) -> bool:
    """The same for an object that is not encoded: to encode it takes a microsecond, 2 ms if it has 1.5 MB."""
    try:
        return is_large(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return True  # it nests deeper than usual objects


def check_values(raw: bytes, limit: int = MAX_VALUES) -> int:
    """Count the values in a JSON text, possibly a few too many. Raises TooLarge if there are more than `limit`."""
    count = _separators(raw)
    if count > limit:
        count = _separators_outside_strings(raw, limit)
    if count > limit:
        raise too_many_values(str(count), limit)
    return count


def too_many_values(count: str, limit: int) -> TooLarge:
    return TooLarge(
        f"Request entity too large: the object has {count} values (members of objects and items of lists), at "
        f"most {limit} are allowed: divide it into several objects"
    )


def _separators(raw: bytes) -> int:
    """Count commas: every value but the first of its object or list follows one."""
    return raw.count(b",") + raw.count(b"{") + raw.count(b"[")


def _separators_outside_strings(raw: bytes, limit: int) -> int:
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = bare.count(b'"') // 2
    if strings > 2 * limit:  # each string is a value or the name of one
        return strings // 2
    return _separators(b"".join(bare.split(b'"')[::2]))


@coroutine
def in_event_loop(wait: Callable[[], Awaitable[T]]) -> Generator[Callable[[], Awaitable[T]], Any, T]:
    """Let the event loop wait for something, from within a coroutine that a thread runs (`run_command`)."""
    result: T = yield wait
    return result


class _Ended(NamedTuple):
    result: Any


def _advance(advance: Callable[[Any], Any], answer: Any) -> Any:
    """Run a coroutine until it waits or ends. Returns what it waits for, or `_Ended` with its result."""
    try:
        return advance(answer)
    except StopIteration as end:
        return _Ended(end.value)


class TooMuchLargeWork(Overloaded):
    message = "the server has more large requests than it can work on now, please try again later"


class LargeWorkStatistics(msgspec.Struct, frozen=True):
    waiting: int
    started: int
    refused: int


class LargeWork:
    def __init__(self, limit: int = MAX_WAITING, limit_of_user: int = MAX_WAITING_OF_USER) -> None:
        self._limit, self._limit_of_user = limit, limit_of_user
        self._running = False
        self._waiting: OrderedDict[str, deque[trio.lowlevel.Task]] = (
            OrderedDict()
        )  # the first user has the next turn
        self._count = self._commands = 0  # waiting pieces, and how many of them are commands
        self._started = self._refused = 0
        self._thread = trio.CapacityLimiter(1)

    async def run(self, user: str, work: Callable[..., T], *arguments: Any) -> T:
        """Run work in the thread when it is the user's turn. Raises TooMuchLargeWork if too much is waiting.

        Cancelling does not interrupt work that is running: this returns when the work ends or next calls the event
        loop.
        """
        return await self._run(user, False, work, *arguments)

    async def _run(self, user: str, is_command: bool, work: Callable[..., T], *arguments: Any) -> T:
        waited = await self._take_turn(user, is_command)
        self._started += 1
        try:
            if waited:
                # Let the receiver of the previous result use it first: an actor has events to propose.
                await trio.lowlevel.cancel_shielded_checkpoint()
            return await run_in_thread(run_limited, work, *arguments, limiter=self._thread)
        finally:
            self._pass_turn()

    async def run_command(self, user: str, steps: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread. While it waits with `in_event_loop` it occupies no thread.

        It may change threads between two steps, but only one thread runs it at a time.
        """
        advance, answer = steps.send, None
        try:
            while True:
                step = await self._run(user, True, _advance, advance, answer)
                if isinstance(step, _Ended):
                    result: T = step.result
                    return result
                await trio.lowlevel.checkpoint_if_cancelled()
                try:
                    advance, answer = steps.send, await step()
                except Exception as error:
                    advance, answer = steps.throw, error
        finally:
            steps.close()

    def statistics(self) -> LargeWorkStatistics:
        return LargeWorkStatistics(self._count, self._started, self._refused)

    async def _take_turn(self, user: str, is_command: bool) -> bool:
        """Wait for the thread. Returns whether it was busy."""
        if not self._running:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._running = True
            return False
        self._check_room(user, is_command)
        task = trio.lowlevel.current_task()
        self._waiting.setdefault(user, deque()).append(task)
        self._count += 1
        self._commands += is_command

        def abort(_: object) -> trio.lowlevel.Abort:
            self._forget(user, task)
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            self._commands -= is_command
        return True

    def _check_room(self, user: str, is_command: bool) -> None:
        if is_command:
            full = self._commands >= MAX_WAITING_COMMANDS
        else:
            others = self._count - self._commands
            full = others >= self._limit or len(self._waiting.get(user, ())) >= self._limit_of_user
        if full:
            self._refused += 1
            raise TooMuchLargeWork

    def _forget(self, user: str, task: trio.lowlevel.Task) -> None:
        queue = self._waiting[user]
        queue.remove(task)
        self._count -= 1
        if not queue:
            del self._waiting[user]

    def _pass_turn(self) -> None:
        """Give the thread to the next user, and move that user to the end of the queue."""
        if not self._waiting:
            self._running = False
            return
        user, queue = self._waiting.popitem(last=False)
        task = queue.popleft()
        self._count -= 1
        if queue:
            self._waiting[user] = queue
        trio.lowlevel.reschedule(task)

"""Waits for input on sockets that stay registered with epoll.

trio registers a socket for one event at a time (EPOLLONESHOT): each request costs a system call and a hundred
bytecodes to register its connection again. A connection that waits with `wait_input` stays registered until input
arrives that no task waits for. It is registered level-triggered, so nothing that arrives is missed. `use` replaces the
class of the running loop's I/O manager by a subclass that can do this; all other waits go on as before. The
manager is private to trio, so this is done only with the releases of trio that it was written for; with others, and
where there is no epoll, `wait_input` is `wait_readable` (docs/decisions/0029).

Sockets that were waited for must be closed after `notify_closing`, or the next one with the same number would count as
registered; `Transport` does so.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_readable, wait_task_rescheduled

# Releases of trio whose I/O manager for epoll is the one that `PersistentReads` extends.
RELEASES: Final = frozenset({"0.30", "0.31", "0.32", "0.33", "0.34", "0.35"})
POSSIBLE: Final = hasattr(select, "epoll") and trio.__version__.rpartition(".")[0] in RELEASES

if TYPE_CHECKING or POSSIBLE:
    from trio._core._io_epoll import EpollIOManager, EpollWaiters
    from trio._core._run import GLOBAL_RUN_CONTEXT
else:
    EpollIOManager = EpollWaiters = object
    GLOBAL_RUN_CONTEXT = None

_EPOLLIN: Final = getattr(select, "EPOLLIN", 0)
_EPOLLONESHOT: Final = getattr(select, "EPOLLONESHOT", 0)
# What trio sees as the flags of a socket that stays registered: unlike any that it sets, so that it sets its own when
# another task waits for output on the same socket.
_ARMED: Final = _EPOLLIN | 1 << 40


class PersistentReads(EpollIOManager):
    __slots__ = ()

    def process_events(self, events: Any) -> None:
        others: list[tuple[int, int]] = []
        registered = self._registered
        for event in events:
            waiters = registered.get(event[0])
            if waiters is None or waiters.current_flags != _ARMED:
                others.append(event)
            elif waiters.read_task is not None:
                task, waiters.read_task = waiters.read_task, None
                reschedule(task)
            else:
                self._disarm(event[0])
        if others:
            super().process_events(others)

    def arm(self, fd: int, waiters: EpollWaiters) -> None:
        """Register a socket until input arrives that nobody waits for. OSError."""
        if waiters.write_task is not None:
            self._update_registrations(fd)  # for one event, together with that task
            return
        try:
            try:
                self._epoll.modify(fd, _EPOLLIN)
            except OSError:
                self._epoll.register(fd, _EPOLLIN)
        except (OSError, ValueError):  # ValueError: it is no number of a socket
            del self._registered[fd]
            raise
        waiters.current_flags = _ARMED

    def _disarm(self, fd: int) -> None:
        del self._registered[fd]
        with contextlib.suppress(OSError):  # it is closed
            self._epoll.modify(fd, _EPOLLONESHOT)


def use() -> bool:
    """Let `wait_input` keep sockets registered, in the running loop; False if it cannot."""
    if not POSSIBLE:
        return False
    manager: Any = GLOBAL_RUN_CONTEXT.runner.io_manager
    if type(manager) is EpollIOManager:
        manager.__class__ = PersistentReads
    return type(manager) is PersistentReads


def _wait_input(fd: int) -> Awaitable[None]:
    """As `wait_readable`, to be awaited at once: no coroutine of its own, because every request would pay for it."""
    manager: Any = GLOBAL_RUN_CONTEXT.runner.io_manager
    if type(manager) is not PersistentReads:
        return wait_readable(fd)
    waiters = manager._registered[fd]
    if waiters.read_task is not None:
        raise trio.BusyResourceError("another task is already reading this fd")
    waiters.read_task = current_task()
    if waiters.current_flags != _ARMED:
        manager.arm(fd, waiters)

    def abort(_: object) -> Abort:
        waiters.read_task = None
        return Abort.SUCCEEDED

    return wait_task_rescheduled(abort)


wait_input = _wait_input if POSSIBLE else wait_readable

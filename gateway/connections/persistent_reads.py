"""Waits for input on sockets that stay registered with epoll.

trio registers a socket for one event at a time (EPOLLONESHOT): each request costs a system call and a hundred
bytecodes to register its connection again. A connection that waits with `wait_input` stays registered until input
arrives that no task waits for. It is registered level-triggered, so nothing that arrives is missed. `use` replaces the
class of the running loop's I/O manager by a subclass that can do this, and that runs the tasks with input itself
(`actors.tasks.resumption`); all other waits go on as before. The manager is private to trio, so this is done only with
the releases of trio that it was written for; with others, and where there is no epoll, `wait_input` is `wait_readable`
(docs/decisions/0029).

Sockets that were waited for must be closed after `notify_closing`, or the next one with the same number would count as
registered; `Transport` does so.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.lowlevel import Abort, wait_readable

from actors.tasks import resumption
from actors.tasks.resumption import KNOWN, pause, pause_again, run_at_poll

POSSIBLE: Final = hasattr(select, "epoll") and KNOWN

if TYPE_CHECKING or POSSIBLE:
    from trio._core._io_epoll import EpollIOManager, EpollWaiters
    from trio._core._run import GLOBAL_RUN_CONTEXT
    from trio._core._traps import WaitTaskRescheduled
else:
    EpollIOManager = EpollWaiters = object
    GLOBAL_RUN_CONTEXT = None

_EPOLLIN: Final = getattr(select, "EPOLLIN", 0)
_EPOLLONESHOT: Final = getattr(select, "EPOLLONESHOT", 0)
# What trio sees as the flags of a socket that stays registered: unlike any that it sets, so that it sets its own when
# another task waits for output on the same socket.
_ARMED: Final = _EPOLLIN | 1 << 40


class _InputWaiters(EpollWaiters):
    """The tasks that wait for a socket which stays registered."""

    __slots__ = ("message",)

    message: WaitTaskRescheduled  # the same for each wait for input

    def __init__(self, message: WaitTaskRescheduled) -> None:
        super().__init__()
        self.message = message


class PersistentReads(EpollIOManager):
    __slots__ = ()

    def process_events(self, events: Any) -> None:
        others: list[tuple[int, int]] = []
        ready: list[trio.lowlevel.Task] = []
        registered = self._registered
        for event in events:
            waiters = registered.get(event[0])
            if waiters is None or waiters.current_flags != _ARMED:
                others.append(event)
            elif (task := waiters.read_task) is not None:
                waiters.read_task = task._abort_func = None
                ready.append(task)
            else:
                self._disarm(event[0])
        if others:
            super().process_events(others)
        if ready:
            run_at_poll(ready)

    def wait_unregistered(self, fd: int) -> Awaitable[None]:
        """Register a socket until input arrives that nobody waits for, and wait. OSError."""
        waiters = self._registered[fd]
        if waiters.read_task is not None:
            raise trio.BusyResourceError("another task is already reading this fd")
        if waiters.write_task is not None:
            waiters.read_task = GLOBAL_RUN_CONTEXT.task
            self._update_registrations(fd)  # for one event, together with that task
            return pause(partial(_stop_waiting, self._registered, fd))
        armed = self.arm(fd)
        armed.read_task = GLOBAL_RUN_CONTEXT.task
        return pause_again(armed.message)

    def arm(self, fd: int) -> _InputWaiters:
        try:
            try:
                self._epoll.modify(fd, _EPOLLIN)
            except OSError:
                self._epoll.register(fd, _EPOLLIN)
        except (OSError, ValueError):  # ValueError: it is no number of a socket
            del self._registered[fd]
            raise
        message = WaitTaskRescheduled(partial(_stop_waiting, self._registered, fd))
        waiters = self._registered[fd] = _InputWaiters(message)
        waiters.current_flags = _ARMED
        return waiters

    def _disarm(self, fd: int) -> None:
        del self._registered[fd]
        with contextlib.suppress(OSError):  # it is closed
            self._epoll.modify(fd, _EPOLLONESHOT)


def _stop_waiting(registered: dict[int, EpollWaiters], fd: int, _: object) -> Abort:
    """The task that waits for input was cancelled."""
    registered[fd].read_task = None
    return Abort.SUCCEEDED


def use() -> bool:
    """Let `wait_input` keep sockets registered, in the running loop; False if it cannot."""
    if not POSSIBLE or not resumption.start():
        return False
    manager: Any = GLOBAL_RUN_CONTEXT.runner.io_manager
    if type(manager) is EpollIOManager:
        manager.__class__ = PersistentReads
    return type(manager) is PersistentReads


def _wait_input(fd: int) -> Awaitable[None]:
    """As `wait_readable`, to be awaited at once: no coroutine of its own, because every request would pay for it."""
    context = GLOBAL_RUN_CONTEXT
    manager: Any = context.runner.io_manager
    if type(manager) is not PersistentReads:
        return wait_readable(fd)
    waiters: Any = manager._registered.get(fd)
    if waiters is None or waiters.current_flags != _ARMED or waiters.read_task is not None:
        return manager.wait_unregistered(fd)
    waiters.read_task = context.task
    return pause_again(waiters.message)


wait_input = _wait_input if POSSIBLE else wait_readable

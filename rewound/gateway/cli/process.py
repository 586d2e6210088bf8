"""The server as a process: its limit of open files, and the signals that stop it."""

from __future__ import annotations

import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable

import trio

from rewound.actors.kinds.schema import pydantic_decoder
from rewound.actors.runtime.clock import Clock
from rewound.actors.store.etcd.follower import CopyOutdated
from rewound.gateway.composition.background_imports import import_used_later
from rewound.gateway.composition.run import Announce, run
from rewound.gateway.settings.settings import Addresses, Settings

logger = logging.getLogger(__name__)


async def serve_until_signal(settings: Settings, announce: Announce, clock: Clock | None = None) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once."""
    await serve_until(settings, announce, clock, _stop_on_signal)


async def serve_until(
    settings: Settings,
    announce: Announce,
    clock: Clock | None,
    asked: Callable[[trio.Event], Awaitable[None]],
) -> None:
    """Serve until `asked`, which runs beside the server, sets the event that it gets."""
    raise_file_limit()
    stop = trio.Event()
    with pydantic_decoder.postponed():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asked, stop)

            def ready(addresses: Addresses) -> None:
                announce(addresses)
                nursery.start_soon(import_used_later)

            while not await _served(settings, ready, stop, clock):
                logger.warning("this node was behind for too long: it starts anew with the state in etcd")
            nursery.cancel_scope.cancel()


async def _served(settings: Settings, ready: Announce, stop: trio.Event, clock: Clock | None) -> bool:
    """Serve until `stop`; False if the copy of this node must be made anew, which another start does."""
    try:
        await run(settings, ready, stop, clock)
    except BaseExceptionGroup as errors:
        outdated, others = errors.split(CopyOutdated)
        if outdated is None or others is not None:
            raise
        return False
    return True


def write_pid_file(settings: Settings) -> None:
    """If --server-config asks for one; SettingsError."""
    path = settings.server.keys.get("pid_path")
    if path is None:
        return
    from hypercorn.utils import write_pid_file as write

    try:
        write(path)
    except OSError as error:
        raise settings.server.refuse("pid_path", f"{path}: {error.strerror}; give another file") from None


def raise_file_limit() -> None:
    """Every watch holds a socket: use as many file descriptors as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# malloc keeps up to this much free memory at the end of the heap; allocations above half of it use mmap.
KEPT = 64 << 20


def configure_malloc() -> bool:
    """Sets malloc options of the C library before a server starts.

    With its defaults glibc returns the memory of a response of some megabytes to the kernel, which zeroes it
    again for the next response. That costs a list of 2,000 objects a fifth of its time. Rejected: environment
    variables, which only a wrapper around the command could set.

    False where the C library has no such options: the server then runs with its defaults.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, KEPT // 2)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))

"""The server as a process: its garbage collection, memory, log and open files, and the signals that stop it."""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from rewound.actors.kinds.schema import pydantic_decoder
from rewound.actors.runtime.clock import Clock
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.journal.errors import LeaderChanged
from rewound.server.background_imports import import_used_later
from rewound.server.extensions import Extensions
from rewound.server.failures import explain
from rewound.server.logs import configure_logging, print_error, report_left_out
from rewound.server.memory_faults import explain_memory_faults
from rewound.server.run import Announce, run

logger = logging.getLogger(__name__)


# Seconds after which a busy thread gives the interpreter lock to the event loop: a tenth of Python's default, because
# every system call of the event loop releases the lock.
SWITCH_INTERVAL: Final = 0.0005
# A large body has some hundred thousand containers without cycles. With Python's default, decoding one would trigger
# full collections, which hold the interpreter lock for 30 to 80 ms and find nothing. Each of the first kind visits what
# was allocated since the one before: 20,000 containers would take some milliseconds, in any thread.
COLLECT_AFTER: Final = (5_000, 200, 50)
OPEN_MAX: Final = 10_240  # open files that macOS allows a process, whatever its limit


def run_configured(settings: Settings, main: Callable[[], int]) -> int:
    """Configure this process for a server, call `main` and return its exit code; report why it failed, if it did."""
    configure_malloc()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*COLLECT_AFTER)
    explain_memory_faults(settings.journal)
    try:
        configure_logging(settings)
    except SettingsError as error:
        print_error(str(error))
        return 2
    try:
        return main()
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        explanation = explain(error, settings)
        if settings.log.log_format == "json":
            logger.critical(
                "stopped: %s", explanation or "internal error", exc_info=None if explanation else error
            )
        elif explanation is None:
            raise
        else:
            print_error(explanation)
        return 1
    finally:
        report_left_out()


async def serve_until_signal(
    settings: Settings, announce: Announce, extensions: Extensions, clock: Clock | None = None
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once."""
    await serve_until(settings, announce, extensions, clock, _stop_on_signal)


async def serve_until(
    settings: Settings,
    announce: Announce,
    extensions: Extensions,
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

            while why := await _served(settings, ready, stop, extensions, clock):
                logger.warning(why)
            nursery.cancel_scope.cancel()


async def _served(
    settings: Settings, ready: Announce, stop: trio.Event, extensions: Extensions, clock: Clock | None
) -> str:
    """Serve until `stop`. Returns why this node or standby must start again, or an empty string."""
    try:
        await run(settings, ready, stop, clock, extensions)
    except BaseExceptionGroup as errors:
        from rewound.actors.store.etcd.follower import CopyOutdated

        reasons: dict[type[Exception], str] = {
            CopyOutdated: "this node was behind for too long: it starts over with the state in etcd",
            LeaderChanged: "the leader was upgraded, and stores more or other kinds: this standby starts again",
        }
        for cause, why in reasons.items():
            found, others = errors.split(cause)
            if found is not None and others is None:
                return why
        raise
    return ""


def write_pid_file(settings: Settings) -> None:
    """Write the pid file that --server-config asks for, if any. Raises SettingsError if that fails."""
    path = settings.server.keys.get("pid_path")
    if path is None:
        return
    from hypercorn.utils import write_pid_file as write

    try:
        write(path)
    except OSError as error:
        raise settings.server.refuse("pid_path", f"{path}: {error.strerror}; give another file") from None


def raise_file_limit() -> None:
    """Raise the limit of open files to its maximum: every watch holds a socket."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS: "unlimited" is the maximum, and may not be chosen
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_MAX, hard))


async def _stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            name = signal.Signals(number).name
            if stop.is_set():
                logger.warning("%s came while the server was stopping: it ends at once", name)
                os._exit(128 + number)
            logger.info("stopping because of %s: requests complete, then the journal closes", name)
            stop.set()


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# malloc keeps up to this much free memory at the end of the heap; allocations above half of it use mmap.
KEPT = 64 << 20


def configure_malloc() -> bool:
    """Set malloc options of the C library before a server starts.

    With its defaults glibc returns the memory of a response of some megabytes to the kernel, which zeroes it
    again for the next response. That costs a list of 2,000 objects a fifth of its time. A few seconds after the last
    large one, `MemoryBudget.trim_after_work` returns it. Rejected: environment variables, which only a wrapper around
    the command could set.

    False where the C library has no such options: the server then runs with its defaults.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, KEPT // 2)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))

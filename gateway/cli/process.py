"""The server as a process: its limit of open files, and the signals that stop it."""

from __future__ import annotations

import os
import resource
import signal

import trio

from actors.clock import Clock
from actors.kinds.schema import pydantic_decoder
from gateway.composition.run import Announce, run
from gateway.composition.used_later import import_used_later
from gateway.settings.settings import Addresses, Settings


async def serve_until_signal(settings: Settings, announce: Announce, clock: Clock | None = None) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once."""
    _raise_file_limit()
    stop = trio.Event()
    with pydantic_decoder.postponed():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signal, stop)

            def ready(addresses: Addresses) -> None:
                announce(addresses)
                nursery.start_soon(import_used_later)

            await run(settings, ready, stop, clock)
            nursery.cancel_scope.cancel()


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


def _raise_file_limit() -> None:
    """Every watch holds a socket: use as many file descriptors as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()

"""The server as a process: its limit of open files, and the signals that stop it."""

from __future__ import annotations

import logging
import os
import resource
import signal

import trio

from actors.background_import import imported
from actors.clock import Clock
from gateway.compose import Announce, run
from gateway.settings.settings import Addresses, Settings

logger = logging.getLogger(__name__)

# What first requests of some clients need, and a start does not.
_USED_LATER = (
    "gateway.wire.yaml.reader",
    "gateway.wire.yaml.writer",
    "gateway.connections.websocket.connection",
)


async def serve_until_signal(settings: Settings, announce: Announce, clock: Clock | None = None) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once."""
    _raise_file_limit()
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, stop)

        def ready(addresses: Addresses) -> None:
            announce(addresses)
            nursery.start_soon(_import_used_later)

        await run(settings, ready, stop, clock)
        nursery.cancel_scope.cancel()


def _raise_file_limit() -> None:
    """Every watch holds a socket: use as many file descriptors as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _import_used_later() -> None:
    """In a thread, so that nobody waits for these imports: neither the start nor the first client that needs one."""
    for name in _USED_LATER:
        try:
            await imported(name)
        except Exception as error:
            # Such as a lack of file descriptors, in any library: the first user imports it then.
            logger.warning("%s was not imported in advance: %s", name, error)


async def _stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()

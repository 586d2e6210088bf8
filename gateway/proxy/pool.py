"""ConnectionPool: keeps connections to other servers open between requests, because a TLS handshake costs milliseconds.

The connection that was used last is used first; idle ones are closed after 90 seconds, or when there are too many. One
from which something can be read while it is idle has been closed by its peer, or has sent what nobody asked for: it is
not used.
"""

from __future__ import annotations

import select
from typing import Any, Final

import trio

from gateway.proxy.dialing import connect
from gateway.proxy.target import Target

IDLE_SECONDS: Final = 90.0
MAX_IDLE: Final = 64

_Key = tuple[str, int, Any, str, bool]


class ConnectionPool:
    def __init__(self) -> None:
        self._idle: list[tuple[float, _Key, trio.abc.Stream]] = []  # since when; the oldest first

    def __len__(self) -> int:
        return len(self._idle)

    async def connect(self, target: Target, *, new: bool = False) -> tuple[trio.abc.Stream, bool]:
        """A connection, and whether it was kept. BadRequest if the address is not allowed, Unreachable."""
        await self._close_expired()
        key = _key(target)
        while not new and (stream := self._take(key)) is not None:
            if not _readable(stream):
                return stream, True
            await trio.aclose_forcefully(stream)
        return await connect(target), False

    def _take(self, key: _Key) -> trio.abc.Stream | None:
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index][1] == key:
                return self._idle.pop(index)[2]
        return None

    async def keep(self, target: Target, stream: trio.abc.Stream) -> None:
        self._idle.append((trio.current_time(), _key(target), stream))
        if len(self._idle) > MAX_IDLE:
            await trio.aclose_forcefully(self._idle.pop(0)[2])

    async def _close_expired(self) -> None:
        oldest = trio.current_time() - IDLE_SECONDS
        while self._idle and self._idle[0][0] < oldest:
            await trio.aclose_forcefully(self._idle.pop(0)[2])

    async def close(self) -> None:
        while self._idle:
            await trio.aclose_forcefully(self._idle.pop()[2])


def _key(target: Target) -> _Key:
    # The context itself: connections of another CA bundle or client certificate have another one.
    return target.host, target.port, target.tls, target.server_name, target.local_allowed


def _readable(stream: trio.abc.Stream) -> bool:
    transport: Any = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    poll = select.poll()
    poll.register(transport.socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))

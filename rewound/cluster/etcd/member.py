"""One member of an etcd cluster, at one client URL: its connection, and the calls and watches on it.

All calls and watches share one connection, which is opened when it is needed. They end at once when the member stops
responding (its machine is cut off, its process is paused) or has a new leader.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import lru_cache
from math import inf
from typing import Final

import trio

from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.cluster.etcd.connection import Connection, Exchange, header_block, shown
from rewound.cluster.etcd.replies import Lost, NotDone
from rewound.gateway.outgoing.connections import Connections, Endpoint, parse_url
from rewound.gateway.outgoing.response import ResponseError

CONNECT_SECONDS: Final = 2.0  # for TCP and TLS; members are nearby

Spawn = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]


class MemberClient:
    def __init__(self, url: str, tls: ssl.SSLContext | None, connections: Connections, spawn: Spawn) -> None:
        """`url`: https://host:port, or http://host:port without `tls`. `spawn` runs a task until the client ends."""
        self.url = url
        self.problem = ""  # why the last call failed; empty if it did not
        # Open calls and watches, with the raft term in which each began if that matters.
        self.busy: dict[Exchange, int | None] = {}
        address = parse_url(url)
        self._endpoint = Endpoint(address.host, address.port, tls)
        self._host = address.authority
        self._connections = connections
        self._spawn = spawn
        self._connection: Connection | None = None
        self._connecting = trio.Lock()
        self._deadlines = Deadlines()

    @property
    def heard(self) -> float:
        """When data arrived last."""
        return self._connection.heard if self._connection is not None else -inf

    async def call(
        self,
        path: str,
        fields: tuple[tuple[str, str], ...],
        message: bytes,
        deadline: float,
        term: int | None = None,
    ) -> bytes:
        """Send a call; returns the reply.

        Raises NotDone if nothing was sent, Lost without a complete reply, or the error that etcd returned.

        `term`: the newest known term of the cluster; the call ends with it. None for a call that need not.
        """
        exchange = await self.start(path, fields, message, deadline, term)
        self._deadlines.add(exchange, deadline)
        try:
            reply = await exchange.reply()
        except TooSlow:
            raise Lost("no reply in time") from None
        finally:
            self._deadlines.remove(exchange)
            self.end(exchange)
        self.problem = ""
        return reply

    async def start(
        self,
        path: str,
        fields: tuple[tuple[str, str], ...],
        message: bytes,
        deadline: float,
        term: int | None = None,
        *,
        ends: bool = True,
    ) -> Exchange:
        """Send a request, whose replies the caller reads until it calls `end`. Raises NotDone if it was not sent."""
        connection = self._connection
        if connection is None or not connection.usable:
            connection = await self._connect(deadline)
        head = _head(path, self._host, self._endpoint.tls is not None, fields)
        exchange = connection.start(head, message, ends=ends)
        self.busy[exchange] = term
        return exchange

    def end(self, exchange: Exchange) -> None:
        self.busy.pop(exchange, None)
        exchange.close()

    def give_up(self) -> None:
        """End all calls and watches."""
        if self._connection is not None:
            self._connection.fail("no reply in time")

    def give_up_before(self, term: int) -> None:
        """End the calls that began in an earlier term: what the member forwarded to the former leader may be lost."""
        for exchange, began in list(self.busy.items()):
            if began is not None and began < term:
                exchange.expire()

    async def _connect(self, deadline: float) -> Connection:
        limit = min(deadline, trio.current_time() + CONNECT_SECONDS)
        with trio.CancelScope(deadline=limit):
            async with self._connecting:
                if self._connection is not None and self._connection.usable:
                    return self._connection
                try:
                    stream = await self._connections.connect(self._endpoint)
                except (OSError, ResponseError) as error:
                    raise NotDone(shown(error)) from None
                connection = Connection(stream)
                try:
                    await self._spawn(connection.run)
                except BaseException:
                    stream.close()
                    raise
                self._connection = connection
                return connection
        raise NotDone("no connection in time")


@lru_cache(maxsize=64)
def _head(path: str, authority: str, tls: bool, fields: tuple[tuple[str, str], ...]) -> bytes:
    return header_block(path, authority, tls, dict(fields))

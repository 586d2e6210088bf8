"""One member of an etcd cluster, at one client URL: sends it requests and reads its replies, over pooled connections.

HTTP/1.1 carries one call at a time on a connection. What is under way is known, so that a member which has stopped
responding (its machine is cut off, its process is paused) or has another leader ends it at once.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from math import inf
from typing import Final

import trio

from actors.access.remote.deadlines import Deadlines, TooSlow
from gateway.etcd.replies import Lost, NotDone
from gateway.outgoing.connections import Connections, Endpoint, cause_of, parse_url
from gateway.outgoing.response import ResponseError, ResponseReader
from gateway.outgoing.streams import ByteStream

CONNECT_SECONDS: Final = 2.0  # for TCP and TLS: members are near
# A range is read whole: who lists pages by thousands is far below, and this much takes a second to parse.
MAX_REPLY: Final = 128 << 20


class MemberClient:
    def __init__(self, url: str, tls: ssl.SSLContext | None, connections: Connections) -> None:
        """`url`: https://host:port, or http://host:port without `tls`."""
        self.url = url
        self.trouble = ""  # why the last call failed; empty after one that did not
        self.heard = -inf  # when something arrived last
        # Connections on which something is under way, with the raft term in which it began if that matters.
        self.busy: dict[ByteStream, int | None] = {}
        address = parse_url(url)
        self._endpoint = Endpoint(address.host, address.port, tls)
        self._host = address.authority
        self._connections = connections
        self._deadlines = Deadlines()

    async def call(
        self, path: str, headers: Mapping[str, str], body: bytes, deadline: float, term: int | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the response. NotDone if nothing was sent, Lost if no complete response came.

        `term`: the newest of the cluster, as far as known; None to wait in any.
        """
        stream = await self.connect(deadline, term)
        reusable = False
        self._deadlines.add(stream, deadline)
        try:
            reader = ResponseReader(stream, MAX_REPLY)
            status = await self.start(stream, reader, path, headers, body)
            try:
                reply = await reader.body()
            except (OSError, ResponseError, TooSlow) as error:
                raise self.lost(error) from None
            reusable = reader.reusable
            self.heard, self.trouble = trio.current_time(), ""
            return status, reply
        finally:
            self._deadlines.remove(stream)
            self.end(stream, reusable=reusable)

    async def connect(self, deadline: float, term: int | None = None) -> ByteStream:
        """A connection, which the caller gives to `end`. NotDone."""
        stream = self._connections.take(self._endpoint)
        if stream is None:
            limit = min(deadline, trio.current_time() + CONNECT_SECONDS)
            with trio.CancelScope(deadline=limit):
                try:
                    stream = await self._connections.connect(self._endpoint)
                except (OSError, ResponseError) as error:
                    raise NotDone(_shown(error)) from None
            if stream is None:
                raise NotDone("no connection in time")
        self.busy[stream] = term
        return stream

    def end(self, stream: ByteStream, *, reusable: bool = False) -> None:
        self.busy.pop(stream, None)
        if reusable:
            self._connections.keep(self._endpoint, stream)
        else:
            stream.close()

    async def start(
        self, stream: ByteStream, reader: ResponseReader, path: str, headers: Mapping[str, str], body: bytes
    ) -> int:
        """Send a request; the status of its response, whose body `reader` has next. Lost."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\n{lines}content-length: {len(body)}\r\n\r\n"
        try:
            await stream.send(head.encode("latin-1") + body)
            return (await reader.start()).status
        except (OSError, ResponseError, TooSlow) as error:
            raise self.lost(error) from None

    def lost(self, error: Exception) -> Lost:
        return Lost("no reply in time" if isinstance(error, TooSlow) else _shown(error))

    def give_up(self) -> None:
        """End everything that is under way."""
        for stream in list(self.busy):
            stream.expire()

    def give_up_before(self, term: int) -> None:
        """End the calls that began in an earlier term: what a member passed on to its former leader may be lost."""
        for stream, began in list(self.busy.items()):
            if began is not None and began < term:
                stream.expire()


def _shown(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({(error.reason or 'unknown').replace('_', ' ').lower()})"
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, OSError) and (number := cause_of(error).errno):
        return os.strerror(number).lower()
    return str(error) or type(error).__name__

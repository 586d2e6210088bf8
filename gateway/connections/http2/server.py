"""What all HTTP/2 connections of a server share: the heads of responses, and the task that flushes."""

from __future__ import annotations

from gateway.connections.http2.connection import Http2Connection
from gateway.connections.http2.flusher import Flusher
from gateway.connections.http2.heads.response_heads import HTTP2
from gateway.connections.server_state import ServerState
from gateway.connections.transport import Transport
from gateway.message import Peer


class Http2:
    __slots__ = ("_heads", "_server", "flusher")

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._heads = server.heads(HTTP2)
        self.flusher = Flusher()

    async def serve(self, transport: Transport, peer: Peer, ahead: bytes) -> None:
        """Serve one connection; `ahead` was received already."""
        await Http2Connection(self._server, self._heads, self.flusher, transport, peer).run(ahead)

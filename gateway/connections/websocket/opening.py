"""Opens a WebSocket. Few clients use one, so that its library is imported with the first, outside the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.background_import import imported
from gateway.connections.transport import Transport
from gateway.exchange import Exchange

if TYPE_CHECKING:
    from gateway.connections.websocket.connection import WebSocket


async def new_websocket(transport: Transport, received: bytes, exchange: Exchange | None) -> WebSocket:
    """`received` is what the client sent behind its request."""
    await imported("gateway.connections.websocket.connection")
    from gateway.connections.websocket.connection import WebSocket

    return WebSocket(transport, received, exchange)

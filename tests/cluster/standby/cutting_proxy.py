"""A TCP proxy between a standby and its leader that cuts connections, or changes a byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio

from tests.gateway.api import Api

# For each connection: after how many bytes of the leader to cut it, and which byte to change; None: never.
Plan = Callable[[int], tuple[int | None, int | None]]
BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class CuttingProxy:
    def __init__(self, port: int, plan: Plan) -> None:
        self._port, self._plan = port, plan
        self.connections = 0

    async def serve(self, client: trio.SocketStream) -> None:
        cut, changed = self._plan(self.connections)
        self.connections += 1
        leader = await trio.open_tcp_stream("127.0.0.1", self._port)
        async with leader, client, trio.open_nursery() as nursery:
            nursery.start_soon(self._forward, client, leader, None, None, nursery.cancel_scope)
            nursery.start_soon(self._forward, leader, client, cut, changed, nursery.cancel_scope)

    async def _forward(
        self,
        source: trio.SocketStream,
        target: trio.SocketStream,
        cut: int | None,
        changed: int | None,
        scope: trio.CancelScope,
    ) -> None:
        sent = 0
        with suppress(*BROKEN):
            while data := bytearray(await source.receive_some(4096)):
                if changed is not None and sent <= changed < sent + len(data):
                    data[changed - sent] ^= 4
                if cut is not None and sent + len(data) >= cut:
                    await target.send_all(data[: cut - sent])
                    break
                await target.send_all(data)
                sent += len(data)
        scope.cancel()


@asynccontextmanager
async def proxied(leader: Api, plan: Plan) -> AsyncIterator[tuple[str, CuttingProxy]]:
    """A proxy before a leader, and its URL."""
    assert leader.addresses.insecure is not None
    proxy = CuttingProxy(leader.addresses.insecure[1], plan)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, proxy.serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        yield f"http://127.0.0.1:{port}", proxy
        nursery.cancel_scope.cancel()

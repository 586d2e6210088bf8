"""A server without sockets: an ASGI server accepts connections and calls `handle` for each request.

It replaces `gateway.connections.server.Server`, with the same limits, memory budget, observer, statistics and order
of stopping.
"""

from __future__ import annotations

import ssl

import trio
from hypercorn.config import Config

from rewound.actors.certificates.pools import TrustPools
from rewound.gateway.connections.asgi.requests import AsgiRequests
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.listen import Listener
from rewound.gateway.connections.responder import Handle, Refuse
from rewound.gateway.connections.server_state import ServerState, ServerStatistics
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.settings.server_config import Address


class SocketlessServer:
    def __init__(
        self,
        handle: Handle,
        refuse: Refuse,
        limits: Limits,
        observer: RequestObserver | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self._state = ServerState(handle, refuse, limits, observer, memory)
        self.requests = AsgiRequests(self._state)

    @property
    def quic_address(self) -> Address | None:
        return None

    def statistics(self) -> ServerStatistics:
        return self._state.statistics()

    def replace_handler(self, handle: Handle) -> None:
        self._state.responder.handle = handle

    def replace_tls(self, context: ssl.SSLContext, pools: TrustPools | None) -> None:
        self.requests.pools = pools  # another program has the certificates

    async def serve(
        self,
        config: Config,
        *,
        tls: ssl.SSLContext | None,
        stop: trio.Event,
        pools: TrustPools | None = None,
        task_status: trio.TaskStatus[list[Listener]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Handle requests until `stop`; return when all are complete, or the grace period is over."""
        self.requests.pools = pools
        task_status.started([])
        await stop.wait()
        self._state.begin_drain()
        with trio.move_on_after(config.graceful_timeout):
            await self.requests.wait_idle()

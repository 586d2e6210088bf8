"""A connection counts as authenticated after its first authenticated request; public paths and wrong tokens do not
count.
"""

from __future__ import annotations

from msgspec.structs import replace

from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.responder import Handle, Refuse
from rewound.gateway.connections.server import Server
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Peer, Request, Response
from rewound.server.extensions import NO_EXTENSIONS
from tests.gateway.api import ALICE, Api, served

SECRETS = "/api/v1/namespaces/default/secrets"


class Peers:
    """Starts a server, and keeps the peer of its last request."""

    def __init__(self) -> None:
        self.last = Peer()

    def make_server(
        self,
        handle: Handle,
        refuse: Refuse,
        limits: Limits,
        observer: RequestObserver | None,
        memory: MemoryBudget,
    ) -> Server:
        assert limits.unauthenticated is not None

        async def remember(request: Request) -> Response:
            self.last = request.peer
            return await handle(request)

        return Server(remember, refuse, limits, observer, memory)


async def _ask(api: Api, path: str, token: str = "") -> int:
    """Sends it on the connection of the last call."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return (await api.client.get(path, headers=headers)).status_code


async def test_first_authenticated_request_makes_a_connection_known() -> None:
    peers = Peers()
    async with served(extensions=replace(NO_EXTENSIONS, make_server=peers.make_server)) as api:
        for path, token, status in (
            ("/healthz", "", 200),
            ("/version", "", 200),
            (SECRETS, "", 403),
            (SECRETS, "wrong", 401),
            ("/healthz", "wrong", 401),
        ):
            assert (path, await _ask(api, path, token)) == (path, status)
            assert not peers.last.known, path
        before = peers.last
        assert await _ask(api, SECRETS, ALICE) == 403, "authenticated, but not allowed"
        assert peers.last is before and before.known
        assert await _ask(api, SECRETS, "wrong") == 401
        assert peers.last is before and before.known

"""A request identical to the previous one is authenticated and authorized like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision
from rewound.actors.errors import Unauthorized
from rewound.actors.flowcontrol.in_flight import InFlightLimits
from rewound.actors.identity import User
from rewound.actors.names import NAMES
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import HeaderFacts, Peer, Request, Response
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.ops.request_series import RequestSeries
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.pipeline import Pipeline
from rewound.gateway.pipeline.services import PipelineServices

PATH = "/api/v1/namespaces/default/configmaps/web"
HEADERS = {b"authorization": b"Bearer alice-token", b"accept": b"application/json"}


class NoServers:
    remote = None


class Quick:
    logged = 1e9


class Server:
    """A pipeline with minimal parts: this object is its authenticator, authorizer and handler."""

    anonymous_paths = ()

    def __init__(self) -> None:
        self.users: dict[bytes | None, User] = {HEADERS[b"authorization"]: User("alice", "1", ("devs",))}
        self.allowed: Callable[[User], bool] = lambda user: "devs" in user.groups
        self.asked: list[str] = []
        self.limits = InFlightLimits(1, 1)
        self.facts = HeaderFacts()
        self.pipeline = Pipeline(
            PipelineServices(
                names=NAMES["cluster"],
                now=lambda: 0,
                registry=None,
                authenticator=self,
                authorizer=self,
                limits=self.limits,
                api_services=NoServers(),
                serve_api_service=None,
                resources=self,
                paths=None,
                metrics=Metrics(RequestSeries(lambda route: True, lambda route: None)),
                slow_requests=Quick(),
                protobuf=None,
                cbor=None,
                memory=MemoryBudget(1 << 30),
            )
        )

    async def get(self, *, peer: Peer | None = None, **more: bytes) -> int:
        """The status of a request with the same header block as the others."""
        headers = HEADERS | {name.replace("_", "-").encode(): value for name, value in more.items()}
        request = Request("GET", PATH, "", headers, b"", peer or Peer(), None, self.facts)
        return (await self.pipeline.handle(request)).status

    # What the pipeline calls.

    def authenticate(self, authorization: bytes | None, certificate: Any) -> Authenticated:
        if certificate is not None:
            return Authenticated(User(certificate["name"], "", tuple(certificate["groups"])))
        if authorization not in self.users:
            raise Unauthorized
        return Authenticated(self.users[authorization])

    def authorize(self, attributes: Attributes) -> Decision:
        self.asked.append(attributes.user.name)
        return ALLOWED if self.allowed(attributes.user) else NO_OPINION

    async def __call__(self, context: RequestContext) -> Response:
        return Response(200, b"{}")


@pytest.fixture
def server() -> Server:
    return Server()


async def test_changed_rules_count_from_the_next_request_on(server: Server) -> None:
    assert await server.get() == 200
    server.allowed = lambda user: False
    assert await server.get() == 403
    server.allowed = lambda user: True
    assert await server.get() == 200


async def test_user_with_the_same_token_and_other_groups_has_their_rights(server: Server) -> None:
    assert await server.get() == 200
    server.users[HEADERS[b"authorization"]] = User("alice", "1", ("guests",))
    assert await server.get() == 403


async def test_revoked_token_is_refused(server: Server) -> None:
    assert await server.get() == 200
    server.users.clear()
    assert await server.get() == 401


async def test_rules_that_change_while_a_request_waits_for_seats_count(server: Server) -> None:
    waited = []

    async def wait(flow: Any, seats: int) -> None:
        server.allowed = lambda user: False
        waited.append(seats)

    assert server.limits.try_start(server.limits.flow_of(Attributes(User("alice"), "get")), 1)
    server.limits.wait = wait
    assert await server.get() == 403
    assert waited == [1]


async def test_impersonation_is_authorized_each_time(server: Server) -> None:
    server.allowed = lambda user: True
    for _ in range(2):
        server.asked.clear()
        assert await server.get(impersonate_user=b"bob") == 200
        assert server.asked == ["alice", "bob"]
    server.allowed = lambda user: user.name == "alice"
    assert await server.get(impersonate_user=b"bob") == 403


async def test_equal_headers_on_connections_with_other_certificates_are_other_users(server: Server) -> None:
    def peer(name: str, group: str) -> Peer:
        return Peer(certificate={"name": name, "groups": [group]}, certificate_expires=1)

    assert await server.get(peer=peer("alice", "devs")) == 200
    assert await server.get(peer=peer("bob", "guests")) == 403
    assert server.asked == ["alice", "bob"]

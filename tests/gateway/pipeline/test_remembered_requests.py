"""A repeated request takes what was decided about the one before, as long as all is equal that it was computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision, Rights
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


class Version:
    def __init__(self) -> None:
        self.version = 0


class NoServers:
    remote = None


class Clock:
    def now(self) -> int:
        return 0


class Quick:
    logged = 1e9


class Server:
    """A pipeline with small parts around it, which count what they are asked."""

    def __init__(self) -> None:
        self.users: dict[bytes | None, User] = {HEADERS[b"authorization"]: User("alice", "1", ("devs",))}
        self.allowed: Callable[[User], bool] = lambda user: "devs" in user.groups
        self.rights: Rights | None = Rights()
        self.asked: list[User] = []
        self.classified = self.checked = 0
        self.registry = Version()
        self.limits = CountedLimits(self)
        self.facts = HeaderFacts()
        self.services = PipelineServices(
            names=NAMES["cluster"],
            clock=Clock(),
            registry=self.registry,
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
            memory=MemoryBudget.of_limit(1 << 30),
        )
        self.pipeline = Pipeline(self.services)

    async def get(self, *, path: str = PATH, query: str = "", peer: Peer | None = None, **more: bytes) -> int:
        """The status of a request with the same header block as the others."""
        headers = HEADERS | {name.replace("_", "-").encode(): value for name, value in more.items()}
        request = Request("GET", path, query, headers, b"", peer or Peer(), None, self.facts)
        response = await self.pipeline.handle(request)
        if response.status == 200:
            assert response.body == self.users[headers[b"authorization"]].name.encode() or more or peer
        return response.status

    async def get_often(self) -> None:
        """Send one request until it is remembered; the authorizer is not asked from then on."""
        for _ in range(3):
            assert await self.get() == 200
        self.asked.clear()
        self.classified = self.checked = 0
        assert await self.get() == 200
        assert (self.asked, self.classified, self.checked) == ([], 0, 0)

    # What the pipeline calls.

    def by_header(self, authorization: bytes | None) -> Authenticated:
        if authorization not in self.users:
            raise Unauthorized
        return Authenticated(self.users[authorization])

    def authenticate(self, authorization: bytes | None, certificate: Any) -> Authenticated:
        return Authenticated(User(certificate["name"], "", tuple(certificate["groups"])))

    def authorize(self, attributes: Attributes) -> Decision:
        self.asked.append(attributes.user)
        return ALLOWED if self.allowed(attributes.user) else NO_OPINION

    def rights_of(self, user: User) -> Rights | None:
        return self.rights

    def serve(self, context: RequestContext) -> Response:
        self.checked += 1
        return self._respond(context, None)

    def served(self, context: RequestContext) -> Any:
        return None, self._respond

    def _respond(self, context: RequestContext, _: None) -> Response:
        assert context.attributes.user == context.user
        return Response(200, context.user.name.encode())


class CountedLimits(InFlightLimits):
    def __init__(self, server: Server) -> None:
        super().__init__(1, 1)
        self._server = server

    def flow_of(self, request: Attributes) -> Any:
        self._server.classified += 1
        return super().flow_of(request)


@pytest.fixture
def server() -> Server:
    return Server()


async def test_equal_users_are_the_same_user_whichever_objects_they_are(server: Server) -> None:
    await server.get_often()
    server.users = {HEADERS[b"authorization"]: User("alice", "1", tuple(["devs"]))}  # noqa: C409
    assert await server.get() == 200
    assert server.asked == []


@pytest.mark.parametrize("field", ["name", "uid", "groups", "extra"])
async def test_user_object_with_other_values_is_another_user(server: Server, field: str) -> None:
    await server.get_often()
    other = {"name": "bob", "uid": "2", "groups": ("guests",), "extra": (("scope", ("a",)),)}[field]
    object.__setattr__(server.users[HEADERS[b"authorization"]], field, other)
    assert await server.get() == (403 if field == "groups" else 200)
    assert len(server.asked) == 1


async def test_other_user_in_the_place_of_one_that_is_gone_is_decided_anew(server: Server) -> None:
    await server.get_often()
    for number in range(20):  # some of these get the memory of one before
        server.users[HEADERS[b"authorization"]] = User(f"mallory-{number}", "", ("guests",))
        assert await server.get() == 403
    assert len(server.asked) == 20


async def test_changed_rules_count_from_the_next_request_on(server: Server) -> None:
    await server.get_often()
    server.allowed = lambda user: False
    server.rights.changes += 1
    assert await server.get() == 403
    server.allowed = lambda user: True
    server.rights.changes += 1
    assert await server.get() == 200


async def test_revoked_token_is_refused(server: Server) -> None:
    await server.get_often()
    server.users.clear()
    assert await server.get() == 401


async def test_rules_that_change_while_a_request_waits_for_seats_count(server: Server) -> None:
    await server.get_often()
    wait = trio.Event()

    async def waits(flow: Any, seats: int) -> Any:
        server.allowed = lambda user: False
        server.rights.changes += 1
        wait.set()
        server.limits.try_start(flow, seats)

    taken = server.limits.flow_of(Attributes(User("alice"), "get"))
    assert server.limits.try_start(taken, 1)
    server.limits.wait = waits
    taken.level.seats += 1
    server.limits._turn = 0
    assert await server.get() == 403
    assert wait.is_set()


async def test_impersonating_requests_are_never_remembered(server: Server) -> None:
    server.allowed = lambda user: True
    for _ in range(4):
        server.asked.clear()
        assert await server.get(impersonate_user=b"bob") == 200
        assert [user.name for user in server.asked] == ["alice", "bob"]
    server.allowed = lambda user: user.name == "alice"
    assert await server.get(impersonate_user=b"bob") == 403


async def test_certificates_of_connections_count_besides_equal_headers(server: Server) -> None:
    def peer(name: str, group: str) -> Peer:
        return Peer(certificate={"name": name, "groups": [group]}, certificate_expires=1)

    alice, bob = peer("alice", "devs"), peer("bob", "guests")
    for _ in range(4):
        assert await server.get(peer=alice) == 200
    server.asked.clear()
    assert await server.get(peer=bob) == 403
    assert await server.get(peer=alice) == 200
    assert [user.name for user in server.asked] == ["bob"]


async def test_other_paths_and_queries_are_other_requests(server: Server) -> None:
    await server.get_often()
    assert await server.get(path=PATH + "2") == 200
    assert len(server.asked) == 1
    assert await server.get(path=PATH + "2", query="pretty=true") == 200
    assert len(server.asked) == 2


async def test_flow_schemas_and_kinds_that_change_count(server: Server) -> None:
    await server.get_often()
    server.limits.version += 1
    assert await server.get() == 200
    assert server.classified == 1
    await server.get_often()
    server.registry.version += 1
    assert await server.get() == 200
    assert server.checked == 1


async def test_another_pipeline_decides_anew_for_the_same_connection(server: Server) -> None:
    await server.get_often()
    other = Server()
    other.allowed = lambda user: False
    other.facts = server.facts
    assert await other.get() == 403


async def test_users_whose_decisions_depend_on_more_are_decided_anew(server: Server) -> None:
    server.rights = None
    for _ in range(4):
        assert await server.get() == 200
    assert len(server.asked) == 4

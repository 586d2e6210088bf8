"""`PipelineServices`: everything that the pipeline calls, as one value that `server` builds.

Handlers, metrics and aggregation are in higher layers than the pipeline, which therefore has Protocols for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import trio

from rewound.actors.access.authentication.authenticate import Authenticator
from rewound.actors.access.authorize import Authorizer
from rewound.actors.aggregation.api_services import ApiService, ApiServices
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Forwarding, Request, Response
from rewound.gateway.pipeline.context import Limits, RequestContext, Running
from rewound.gateway.pipeline.credentials import bearer_prefix
from rewound.gateway.pipeline.errors import Failure
from rewound.gateway.pipeline.route import Route
from rewound.gateway.wire.cbor.writer import CborEncoder
from rewound.gateway.wire.negotiate import ResponseKind
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder

NoteRefused = Callable[[RequestContext, Failure], None]
ServeApiService = Callable[[RequestContext, ApiService], Awaitable[Response]]
# Returns what a request has to wait for, so that it sees the objects, access rules and kinds that clients may have seen
# from other processes or nodes; None if nothing.
CatchUp = Callable[[RequestContext], Awaitable[None] | None]


class Resources(Protocol):
    """Serves requests for resources."""

    def __call__(self, context: RequestContext) -> Awaitable[Response]: ...

    def check(self, context: RequestContext) -> None:
        """Raise if the resource or the method is not served."""

    def creates_review(self, route: Route) -> bool: ...

    def has_protobuf(self, route: Route) -> bool | None: ...


class Paths(Protocol):
    """Serves non-resource paths."""

    def __call__(self, context: RequestContext) -> Awaitable[Response]: ...

    def negotiates(self, path: str) -> bool: ...

    def response_kind(self, path: str) -> ResponseKind: ...

    def reads_body(self, path: str) -> bool: ...

    def is_public(self, path: str) -> bool: ...


class Authentications(Protocol):
    failures: int  # requests without credentials
    refused: int  # with credentials that were not accepted

    def succeed(self, user: str) -> None: ...


class Series(Protocol):
    """Requests with the same labels and status code."""

    def add(self, seconds: float, size: int) -> None: ...


class RequestCounts(Protocol):
    def find(self, request: Request, route: Route, status: int) -> Series: ...

    def while_forwarded(self, request: Request, route: Route, forwarding: Forwarding) -> Forwarding:
        """Wrap the forwarding of a request, so that the request counts as long as it runs."""

    def count_other(self, status: int) -> None:
        """Count a request that has no series."""

    def measure(self, context: RequestContext, response: Response, series: Any, seconds: float) -> None:
        """Arrange for what is known at the end of the response, and subtract the time of webhooks."""


class Metrics(Protocol):
    @property
    def authentications(self) -> Authentications: ...
    @property
    def reading(self) -> Running: ...
    @property
    def mutating(self) -> Running: ...
    @property
    def requests(self) -> RequestCounts: ...


class SlowRequests(Protocol):
    @property
    def logged(self) -> float:
        """Requests that take more seconds are logged."""

    def completed(self, request: Request, seconds: float) -> None: ...


class InjectedRequest(Protocol):
    """A request with the faults that rules inject (`testing.faults`)."""

    delay_seconds: float

    async def serve(self, dispatch: Any) -> Response: ...


class Tracing(Protocol):
    def begin(self, context: RequestContext) -> None:
        """Start the span of a request whose user is known."""


InjectFault = Callable[[RequestContext], InjectedRequest]


class FaultHook(msgspec.Struct):
    inject: InjectFault | None = None  # set while fault rules are in force
    stopping: trio.Event = msgspec.field(default_factory=trio.Event)  # ends delays


@dataclass(frozen=True, slots=True)
class PipelineServices:
    names: Names
    now: Callable[[], int]  # in nanoseconds since 1970
    registry: Registry
    authenticator: Authenticator
    authorizer: Authorizer
    limits: Limits
    api_services: ApiServices
    serve_api_service: ServeApiService
    resources: Resources
    paths: Paths
    metrics: Metrics
    slow_requests: SlowRequests
    protobuf: ProtobufEncoder
    cbor: CborEncoder | None  # None: its feature gate is off
    memory: MemoryBudget
    rules: Rules = DOCUMENTED
    constrained_impersonation: bool = False
    catch_up: CatchUp | None = None  # None if this process alone serves the journal
    note_refused: NoteRefused | None = None  # called for each write that is refused
    faults: FaultHook = field(default_factory=FaultHook)
    tracing: Tracing | None = None
    bearer_prefix: bytes = field(init=False)
    watches_items: bool = field(init=False)  # whether a GET of one object may be a watch

    def __post_init__(self) -> None:
        object.__setattr__(self, "bearer_prefix", bearer_prefix(self.names))
        object.__setattr__(self, "watches_items", self.rules.item_watch == "stream")

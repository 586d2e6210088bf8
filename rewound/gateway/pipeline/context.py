"""`RequestContext`: route, parameters, user, representation and warnings of one request.

`HeaderBlock` has what depends on the headers alone; consecutive requests with equal headers share it. `Rewind` is the
interface of the handlers of history, which are in a higher layer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable
from math import inf
from typing import Final, Protocol

from trio.lowlevel import Task

from rewound.actors.access.authentication.authenticate import ANONYMOUS_USER, Authenticated
from rewound.actors.access.authorize import Attributes
from rewound.actors.access.impersonation import WantedIdentity
from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.errors import BadRequest
from rewound.actors.flowcontrol.in_flight import InFlightLimits
from rewound.actors.flowcontrol.priority_and_fairness import PriorityAndFairness
from rewound.actors.flowcontrol.seats import Flow, Waiting
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import WriteContext
from rewound.actors.names import Names
from rewound.actors.runtime.trace_context import PassedOn, Span, set_span
from rewound.actors.runtime.write_context import WriteContexts
from rewound.gateway.exchange import Exchange
from rewound.gateway.message import Request, Response
from rewound.gateway.pipeline.options import MANAGER_BYTES
from rewound.gateway.pipeline.parameters import EMPTY, Parameters
from rewound.gateway.pipeline.route import Route
from rewound.gateway.wire.cbor.writer import CborEncoder
from rewound.gateway.wire.negotiate import JSON, Media, Representation
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder

Limits = PriorityAndFairness | InFlightLimits

READING: Final = frozenset({"get", "list", "watch"})  # verbs
NO_ROUTE: Final = Route("", "", is_resource=False)
IMPERSONATION: Final = b"impersonate-"  # prefix of header names


class Running(Protocol):
    """The number of running requests that read, or that write (`gateway.ops`)."""

    now: int
    peak: int
    next: float

    def rotate(self, at: float) -> None: ...


class RequestSpan(Span, Protocol):
    """The trace of a request (`gateway.ops.tracing`), or that of the client, which is passed on."""

    def dispatch(self, context: RequestContext) -> None: ...

    def respond(self, status: int) -> None:
        """The request has ended with this status; 0 without a response."""


class PassedOnSpan(PassedOn):
    __slots__ = ()

    def dispatch(self, context: RequestContext) -> None:
        pass

    def respond(self, status: int) -> None:
        set_span(None)


class HeaderBlock:
    """Values computed from a header block."""

    __slots__ = ("impersonates", "manager", "media", "pretty")

    def __init__(self, names: Iterable[bytes]) -> None:
        self.impersonates = IMPERSONATION in b" ".join(names)  # faster than a loop over the names
        self.manager = ""  # the default field manager of writes
        self.media: Media | None = None  # of the body
        self.pretty: bool | None = None  # whether the user agent is a tool whose output people read


class RequestContext:
    __slots__ = (
        "aggregated",
        "attributes",
        "authenticated",
        "authorization",
        "began",
        "block",
        "cbor",
        "counted",
        "deadline",
        "exchange",
        "flow",
        "forwarded",
        "impersonated",
        "limits",
        "parameters",
        "pretty",
        "protobuf",
        "representation",
        "request",
        "route",
        "running",
        "seats",
        "seats_kept",
        "seats_left",
        "span",
        "task",
        "user",
        "waited",
        "waits_outside",
        "warnings",
        "webhook_seconds",
    )
    request: Request
    exchange: Exchange | None  # set if the server has an observer
    block: HeaderBlock
    began: float  # perf_counter()
    # Set by `_find_route`.
    route: Route
    parameters: Parameters
    deadline: float  # from the parameter `timeout`, as trio.current_time()
    aggregated: ApiService | None  # set if an aggregated API server serves the request
    forwarded: bool  # another server responds
    # Set by `_authenticate`; `_impersonate` sets those of another user.
    user: User
    attributes: Attributes
    authenticated: Authenticated | None  # who sent it; None before that
    authorization: bytes | None  # the header, or the token of a WebSocket in the form of one
    impersonated: WantedIdentity | None
    span: RequestSpan | None  # set if the request is traced, or names a trace
    # Set by `_control_flow`.
    running: Running | None
    counted: bool  # in the metrics of its resource
    flow: Flow | None
    seats: int  # that it occupies
    waited: Waiting | None  # set if the request had to wait for seats
    # Set if its flow is limited: it may wait outside this server (`actors.runtime.outside`).
    limits: Limits | None
    task: Task | None
    waits_outside: int  # nested
    seats_left: int  # that it takes again after the wait
    seats_kept: bool  # it keeps its seats while it waits
    # Set by `_negotiate`.
    representation: Representation
    protobuf: ProtobufEncoder | None  # set if the representation is protobuf
    cbor: CborEncoder | None  # set if the representation is CBOR
    pretty: bool
    warnings: list[str]  # to send
    webhook_seconds: dict[str, float] | None  # time spent in admission webhooks, by webhook

    def __init__(self, request: Request, began: float = 0.0) -> None:
        self.request = request
        self.exchange = request.exchange
        block: HeaderBlock | None = request.facts.pipeline
        if block is None:
            block = request.facts.pipeline = HeaderBlock(request.headers)
        self.block = block
        self.began = began
        self.route = NO_ROUTE
        self.parameters = EMPTY
        self.deadline = inf
        self.user = ANONYMOUS_USER
        self.span = None
        self.aggregated = self.running = self.flow = self.waited = self.limits = self.task = None
        self.protobuf = self.cbor = self.webhook_seconds = None
        self.authenticated = self.authorization = self.impersonated = None
        self.forwarded = self.counted = self.pretty = self.seats_kept = False
        self.seats = self.seats_left = self.waits_outside = 0
        self.representation = JSON
        self.warnings = []

    @property
    def manager(self) -> str:
        """The field manager: the client's fieldManager, or its user agent up to the first slash."""
        if self.parameters is not EMPTY and (chosen := self.parameters.first("fieldManager")):
            return chosen
        block = self.block
        if not block.manager:
            block.manager = _manager_of(self.request.headers.get(b"user-agent", b""))
        return block.manager

    # The interface of `actors.runtime.outside`. With several worker processes a write keeps its seats: it waits for
    # webhooks in the writer process, so a worker does not know when. If only writes of the writer process returned
    # theirs, more writes would run than the level has seats.

    def leave(self) -> None:
        """Return the seats. Raises NoSeat if too many requests wait for other servers."""
        flow, limits = self.flow, self.limits
        assert flow is not None and limits is not None
        if not self.waits_outside:
            self.seats_kept = flow.level.leased and self.seats > 0 and self.route.verb not in READING
            if not self.seats_kept:
                limits.leave(flow, self.user.name, self.seats, self.waited)
                self.seats_left, self.seats, self.waited = self.seats, 0, None
        self.waits_outside += 1

    async def resume(self) -> None:
        """Take the seats again."""
        if self.waits_outside == 1 and self.seats_left and not self.seats_kept:
            flow, limits = self.flow, self.limits
            assert flow is not None and limits is not None
            needed = min(self.seats_left, flow.level.limit)
            try:
                self.waited = await limits.start_again(flow, needed)
            except BaseException:
                self.end_outside()
                raise
            self.seats = needed
        self.end_outside()

    def end_outside(self) -> None:
        self.waits_outside -= 1
        if not self.waits_outside and not self.seats_kept:
            assert self.flow is not None and self.limits is not None
            self.limits.release_place(self.flow, self.user.name)

    def warn_of_deprecation(self, warning: str, names: Names) -> None:
        """Warn the client of a deprecated API, and annotate the audit event like Kubernetes."""
        self.warnings.append(warning)
        exchange = self.exchange
        if exchange is not None:
            exchange.annotate(f"{names.group_domain}/deprecated", "true")
            if removed := removed_release(warning):
                exchange.annotate(f"{names.group_domain}/removed-release", removed)

    def seconds(self, name: str) -> float | None:
        """A time limit in seconds; None if it is 0 or absent."""
        value = self.parameters.integer(name)
        if value is not None and value < 0:
            raise BadRequest(f"{name}: Invalid value: {value}: must not be negative")
        return float(value) if value else None


_REMOVED_IN = re.compile(r"unavailable in v([0-9.]+)\+")


def removed_release(warning: str) -> str:
    """The release that removes the deprecated API, from the text of its warning; empty if that does not say."""
    found = _REMOVED_IN.search(warning)
    return found[1] if found is not None else ""


def _manager_of(agent: bytes) -> str:
    """The field manager made from a user agent: shortened instead of refused, because the client did not choose it."""
    program = agent.partition(b"/")[0].decode(errors="replace")
    if not program.isprintable():
        program = "".join(letter for letter in program if letter.isprintable())
    return program.encode()[:MANAGER_BYTES].decode(errors="ignore") or "unknown"


class Rewind(Protocol):
    def __call__(self, context: RequestContext) -> Awaitable[Response]:
        """Serve a path of the group rewound.cluster.io."""

    def check(self, context: RequestContext) -> object:
        """Raise if such a path or its method is not served."""

    def read_at(self, context: RequestContext, definition: Definition) -> Awaitable[Response]:
        """Serve a get or list of objects as they were at a version or time."""


_SHOWN = ("fieldManager", "fieldValidation")


def new_write_context(
    contexts: WriteContexts, context: RequestContext, *, suffix: bool = False, large: bool = False
) -> WriteContext:
    exchange = context.exchange
    annotations = None
    if exchange is not None:
        annotations = exchange.annotations
        if annotations is None:
            annotations = exchange.annotations = {}
    if context.webhook_seconds is None:
        context.webhook_seconds = {}
    made = contexts.new(
        context.user,
        context.manager,
        suffix=suffix,
        large=large,
        annotations=annotations,
        webhook_seconds=context.webhook_seconds,
    )
    if context.parameters is EMPTY:
        return made
    return made._replace(
        options=tuple((name, sent) for name in _SHOWN if (sent := context.parameters.first(name))),
        deadline=context.deadline,
    )

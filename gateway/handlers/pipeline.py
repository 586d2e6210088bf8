"""The steps of every request: authenticate, impersonate, wait for seats, authorize, negotiate, read the body,
dispatch.

A body that did not arrive together with its head is read only once the request is authorized, so that nobody makes the
server hold what it will not use. `handle` raises BodyNotRead alone: every other error becomes a Status.
A step that fails ends the request before any later step begins, so a refused request changes nothing. Connections call
it once per request and send its response.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import Final, Protocol

import trio

from actors.access.authentication.anonymous import ANONYMOUS_USER
from actors.access.authentication.authenticate import Authenticated, Authenticator
from actors.access.authorize import Authorizer, Decision, Rights, Verdict, refusal
from actors.access.impersonation import impersonate
from actors.aggregation.api_services import ApiService, ApiServices
from actors.clock import Clock
from actors.errors import NoSuchResource, RequestError, Unauthorized
from actors.flowcontrol.seats import Flow, NoSeat
from actors.flowcontrol.work_estimate import BYTES_PER_SEAT
from actors.identity import MASTERS, User
from actors.names import Names
from actors.quoting import quoted_start
from gateway.aggregation.routing import SeatedForwarding, aggregated_at, find_aggregated, is_aggregated_watch
from gateway.connections.parsing.parser import wants_websocket
from gateway.connections.websocket.handshake import PROTOCOLS, bearer_prefix, take_bearer
from gateway.handlers.dispatch import Dispatch
from gateway.handlers.paths import Paths
from gateway.handlers.request_seats import Limits, seats_of, take_seats
from gateway.handlers.selectors import attributes_of
from gateway.memory.budget import NO_MEMORY, MemoryBudget, TooManyRequests
from gateway.message import BodyNotRead, Choice, Request, Response, asks_upgrade
from gateway.observer import AuditNotStored
from gateway.ops.loop_watchdog import LOGGED, LoopWatchdog
from gateway.ops.metrics import Metrics
from gateway.ops.request_series import HEALTH_PATHS, MeasuredParts, Series
from gateway.pipeline import render
from gateway.pipeline.context import LastRequest, RequestContext
from gateway.pipeline.errors import (
    RETRY_SOON,
    MethodNotAllowed,
    NoSuchPath,
    UnsupportedPatch,
    failure_of,
    plain_failure,
)
from gateway.pipeline.impersonation import take_wanted_identity
from gateway.pipeline.parameters import EMPTY, parse, parse_leniently
from gateway.pipeline.route import Route, find_route, is_forwarded_path
from gateway.watch.watch import Watch
from gateway.wire.negotiate import (
    NotAcceptable,
    ResponseKind,
    negotiate,
    wants_pretty,
    wants_text,
)
from gateway.wire.protobuf.objects import ProtobufEncoder
from journal.errors import JournalError

logger = logging.getLogger(__name__)

INTERNAL_ERROR = "an error of the server's own stopped this request; the server's log tells more"


ServeApiService = Callable[[RequestContext, ApiService], Awaitable[Response]]


class InjectedRequest(Protocol):
    """A request with faults, of `gateway.faults`."""

    delay_seconds: float

    async def serve(self, dispatch: Dispatch) -> Response: ...


InjectFault = Callable[[RequestContext], InjectedRequest]

UNKNOWN = Authenticated(ANONYMOUS_USER)  # on public paths, also where anonymous requests are not allowed
PUBLIC = Decision(Verdict.ALLOW, "the path is public")
NO_ROUTE = Route("", "", is_resource=False)
_ALLOW = Verdict.ALLOW
# No handler gets these requests in Kubernetes, which therefore does not count them.
_NOT_SERVED: Final = (MethodNotAllowed, NoSuchResource, NotAcceptable, UnsupportedPatch)
_READING: Final = frozenset({"get", "list", "watch"})
_NO_CHOICES: Final[dict[str, Choice]] = {}
_RESPONSE_KINDS: dict[str, ResponseKind] = {
    "get": "item",
    "create": "item",
    "update": "item",
    "patch": "item",
    "list": "list",
    "watch": "watch",
}


class Pipeline:
    def __init__(
        self,
        names: Names,
        authenticator: Authenticator,
        authorizer: Authorizer,
        dispatch: Dispatch,
        paths: Paths,
        api_services: ApiServices,
        serve_api_service: ServeApiService,
        limits: Limits,
        metrics: Metrics,
        watchdog: LoopWatchdog,
        protobuf: ProtobufEncoder,
        memory: MemoryBudget,
        clock: Clock,
    ) -> None:
        self._names = names
        self._authenticator = authenticator
        self._by_header = authenticator.by_header
        self._authorizer = authorizer
        self._rights_of: Callable[[User], Rights | None] = getattr(authorizer, "rights_of", lambda user: None)
        self._rights = self._rights_of(ANONYMOUS_USER)  # of every user whose decisions can be kept
        self._dispatch = dispatch
        self._serve = dispatch.serve
        self._paths = paths
        self._api_services = api_services
        self._serve_api_service = serve_api_service
        self._limits = limits
        self._requests = metrics.requests
        self._authentications = metrics.authentications
        self._reading, self._mutating = metrics.reading, metrics.mutating
        self._watchdog = watchdog
        self._protobuf = protobuf
        self._memory = memory
        self._clock = clock
        self._process = memory.process
        self.inject_fault: InjectFault | None = None  # set while fault rules are in force
        self._bearer_prefix = bearer_prefix(names)

    async def handle(self, request: Request) -> Response:
        began = perf_counter()
        context = RequestContext(request, NO_ROUTE, EMPTY, ANONYMOUS_USER)
        flow: Flow | None = None
        seats, waited = 0, None
        counted, running = False, None
        remote = self._api_services.remote
        try:
            watch, last = False, request.facts.last
            if request.query:
                last = None
                if remote and aggregated_at(remote, request.path) is not None:
                    context.parameters = parse_leniently(request.query)  # it is for another server
                    watch = is_aggregated_watch(request.path, context.parameters)
                elif "/proxy" in request.path and is_forwarded_path(request.path):
                    context.parameters = parse_leniently(request.query)  # it is for another server
                else:
                    context.parameters = parse(request.query)
                    watch = context.parameters.boolean("watch")
                    if not watch and (seconds := context.parameters.timeout()) < inf:
                        context.deadline = trio.current_time() + seconds
            if last is not None and last.path is request.path and last.method is request.method:
                route = last.route
            else:
                route, last = find_route(request.method, request.path, watch=watch), None
            context.route = route
            aggregated = find_aggregated(remote, route) if remote else None
            forwarded = route.forwarded or aggregated is not None
            try:
                if request.peer.certificate_expires or PROTOCOLS in request.headers:
                    authenticated = self._authenticate(request)
                else:
                    authenticated = self._by_header(request.headers.get(b"authorization"))
                if not isinstance(authenticated, Authenticated):
                    authenticated = await authenticated
            except Unauthorized:
                self._count_unauthenticated(request)
                if route.is_resource or not self._paths.is_public(route.path):
                    raise
                authenticated = UNKNOWN
            context.user = user = authenticated.user
            self._authentications.succeed(user.name)
            if request.reserved:
                self._memory.assign(request, user.name)
            else:
                request.user = user.name
            if authenticated.warnings:
                context.warnings.extend(authenticated.warnings)
            if last is not None and last.attributes[0] is user:
                attributes = last.attributes
            else:
                attributes = attributes_of(context)
                if route.asked is not None and not request.query:
                    request.facts.last = LastRequest(request.path, request.method, route, attributes)
            exchange = request.exchange
            if exchange is not None:
                for key, value in authenticated.annotations:
                    exchange.annotate(key, value)
                exchange.attributes(attributes)
                if exchange.stored is not None:
                    await exchange.stored()
            if request.facts.impersonates:
                await self._impersonate(context)
                attributes = attributes_of(context)
            counted = route.is_resource and aggregated is None  # unless it is refused
            running = self._reading if attributes.verb in _READING else self._mutating
            running.now += 1
            if began >= running.next:
                running.rotate(began)
            elif running.now > running.peak:
                running.peak = running.now
            if last is None or last.attributes is not attributes:
                flow = self._limits.flow_of(attributes)
            elif last.classification is not self._limits.classification or (flow := last.flow) is None:
                flow = last.flow = self._limits.flow_of(attributes)
                last.classification = self._limits.classification
            if flow.limited and request.arriving is None and not forwarded:
                needed = 1
                if attributes.verb == "list" or len(request.body) > BYTES_PER_SEAT:
                    needed = seats_of(context, self._limits, flow)
                if not self._limits.try_start(flow, needed):
                    waited = await self._limits.wait(flow, needed)
                seats = needed
            elif not flow.limited:
                flow.counts.dispatched += 1
            rights = self._rights
            if last is None or last.attributes is not attributes:
                decision = self._authorizer.authorize(attributes)
            elif last.rights is rights and rights is not None and last.changes == rights.changes:
                decision = last.decision  # nothing that it depends on has changed
            else:
                decision = self._authorizer.authorize(attributes)
                if isinstance(decision, Decision):
                    last.keep(decision, self._rights_of(user))
            if not isinstance(decision, Decision):
                decision = await decision
            if not route.is_resource and not decision.allowed and self._paths.is_public(route.path):
                decision = PUBLIC
            if exchange is not None:
                exchange.decided = decision
            if decision.verdict is not _ALLOW:  # without the call of a property
                counted = False
                raise refusal(attributes, decision)
            if began >= self._process.next_check:
                self._check_memory(context)
            if not forwarded:
                choices = request.facts.choices if context.parameters is EMPTY else _NO_CHOICES
                if (choice := choices.get(route.shape)) is not None:
                    context.representation, context.pretty, context.protobuf = choice
                elif route.is_resource or self._paths.negotiates(route.path):
                    self._choose_representation(context)
            if request.arriving is not None and not forwarded:
                await self._read_body(context)
                flow = self._limits.flow_of(attributes)  # its level may have been deleted meanwhile
                if flow.limited:  # only now: a client that sends slowly takes no seats
                    needed = seats_of(context, self._limits, flow)
                    if not self._limits.try_start(flow, needed):
                        waited = await self._limits.wait(flow, needed)
                    seats = needed
            if aggregated is not None:
                response = await self._serve_aggregated(context, aggregated, flow)
            elif self.inject_fault is not None and route.is_resource and not forwarded:
                injected = self.inject_fault(context)
                if injected.delay_seconds:  # without seats: it must not make other clients wait
                    needed, seats = seats, 0
                    if needed:
                        self._limits.end(flow.level, needed, waited)
                    await trio.sleep(injected.delay_seconds)
                    flow, seats, waited = await take_seats(self._limits, attributes, needed)
                response = await injected.serve(self._dispatch)
            else:
                counted = counted or route.path in HEALTH_PATHS
                found = self._serve(context) if route.is_resource else self._paths(context)
                response = found if isinstance(found, Response) else await found
        except BodyNotRead:
            raise  # the connection responds
        except NoSuchPath:
            response = render.text("404 page not found\n", 404)
        except AuditNotStored as error:
            response = render.text(f"Internal Server Error: {quoted_start(request.path)}: {error}\n", 500)
        except NoSeat as error:
            response = render.text(f"{error}\n", 429)
            response.headers.extend(RETRY_SOON)
        except Exception as error:
            counted = counted and not isinstance(error, _NOT_SERVED)
            response = await self._failure_response(context, error)
        finally:
            if running is not None:
                running.now -= 1
            if seats:
                assert flow is not None
                self._limits.end(flow.level, seats, waited)
        if flow is not None:
            response.shared = flow.mark
        if response.forwarding is not None:
            response.forwarding.report = partial(self._count_forwarded, context, counted, began)
            return response
        seconds = perf_counter() - began
        if not counted:
            self._requests.count_other(response.status)
        else:
            series = self._requests.find(request, context.route, response.status)
            if response.stream is None:
                series.add(seconds, len(response.body))
            if response.stream is not None or response.parts is not None or context.webhook_seconds:
                _measure(context, response, series, began, seconds)
        if seconds > LOGGED:
            self._watchdog.completed(request, seconds)
        return response

    async def _serve_aggregated(self, context: RequestContext, one: ApiService, flow: Flow) -> Response:
        """Have another server respond. Seats are taken once the client's connection forwards the request."""
        response = await self._serve_api_service(context, one)
        route, forwarding = context.route, response.forwarding
        lasts = route.verb == "watch" or asks_upgrade(context.request)
        if forwarding is not None and flow.limited and not lasts:
            response.forwarding = SeatedForwarding(forwarding, self._limits, flow)
        return response

    def _count_forwarded(self, context: RequestContext, counted: bool, began: float, status: int) -> None:
        """Count a response of another server, which has started. That of an aggregated API counts it itself."""
        if counted:
            series = self._requests.find(context.request, context.route, status)
            series.add(perf_counter() - began, 0)
        else:
            self._requests.count_other(status)

    def _count_unauthenticated(self, request: Request) -> None:
        """Without credentials it is a failure, with others an error, as in Kubernetes."""
        if b"authorization" in request.headers or request.peer.certificate is not None:
            self._authentications.refused += 1
        else:
            self._authentications.failures += 1

    def _check_memory(self, context: RequestContext) -> None:
        """Refuse requests while the process is above its limit, except what operators need to see or end that."""
        if self._process.is_full() and context.route.is_resource and MASTERS not in context.user.groups:
            self._process.refused += 1
            raise TooManyRequests(NO_MEMORY)

    async def _read_body(self, context: RequestContext) -> None:
        """Read the rest of a request that is allowed and has somewhere to go; few other paths read bodies."""
        request = context.request
        if context.route.is_resource:
            self._dispatch.check(context)
        elif not self._paths.reads_body(context.route.path):
            return
        assert request.arriving is not None
        request.body = await request.arriving()

    def _authenticate(self, request: Request) -> Authenticated | Awaitable[Authenticated]:
        """Authenticate a request that has more than an Authorization header."""
        authorization = request.headers.get(b"authorization")
        if PROTOCOLS in request.headers:
            authorization = self._websocket_token(request) or authorization
        peer = request.peer
        if peer.certificate_expires and peer.certificate_expires <= self._clock.now():
            return self._authenticator.authenticate_expired(authorization)
        if peer.proxy_certificate is not None:
            return self._authenticator.authenticate_proxied(
                authorization, peer.certificate, peer.proxy_certificate, request
            )
        return self._authenticator.authenticate(authorization, peer.certificate)

    def _websocket_token(self, request: Request) -> bytes | None:
        """The token that a browser sends as a subprotocol, because it cannot set an Authorization header."""
        if not wants_websocket(request.headers):
            return None
        token = take_bearer(request, self._bearer_prefix)
        return None if b"authorization" in request.headers else token

    async def _impersonate(self, context: RequestContext) -> None:
        """The request goes on as the user that its headers name, if the caller may impersonate it."""
        wanted = take_wanted_identity(context.request)
        if wanted is not None:
            context.user = await impersonate(context.user, wanted, self._authorizer, self._names)
            if context.request.exchange is not None:
                context.request.exchange.impersonated = context.user

    def _choose_representation(self, context: RequestContext) -> None:
        """Negotiate the representation; a resource that does not exist is a 404 before it is a 406."""
        try:
            self._negotiate(context)
        except NotAcceptable:
            if context.route.is_resource:
                self._dispatch.check(context)
            raise

    def _negotiate(self, context: RequestContext) -> None:
        headers = context.request.headers
        route = context.route
        if route.rewinds and wants_text(headers.get(b"accept")):
            return  # the handler responds with text
        if route.rewinds:
            response: ResponseKind = "document"
        elif route.is_resource:
            response = _RESPONSE_KINDS.get(route.verb, "other")
        else:
            response = self._paths.response_kind(route.path)
        context.representation = chosen = negotiate(headers.get(b"accept"), self._names, response)
        if chosen.as_kind and route.verb == "create" and self._dispatch.creates_review(route):
            # A review has no other representation.
            context.representation = negotiate(headers.get(b"accept"), self._names, "document")
        has_protobuf: bool | None = None
        if context.representation.media == "protobuf":
            if route.is_resource:
                has_protobuf = self._dispatch.has_protobuf(route)
            if has_protobuf is False and not context.representation.as_kind:
                context.protobuf = None
                context.representation = negotiate(
                    headers.get(b"accept"), self._names, response, without_protobuf=True
                )
            else:
                context.protobuf = self._protobuf
        pretty = context.parameters.first("pretty") if context.parameters is not EMPTY else None
        context.pretty = context.representation.pretty or wants_pretty(
            pretty, headers.get(b"user-agent", b"")
        )
        is_final = has_protobuf or chosen.media != "protobuf"  # a custom kind may be defined later
        if route.shape and context.parameters is EMPTY and not chosen.as_kind and is_final:
            context.request.facts.remember(route.shape, (chosen, context.pretty, context.protobuf))

    async def _failure_response(self, context: RequestContext, error: Exception) -> Response:
        failure = failure_of(error)
        if isinstance(error, RequestError) and error.warnings:
            context.warnings.extend(error.warnings)
        if context.route is NO_ROUTE:
            context.route = Route(context.request.method.lower(), context.request.path, is_resource=False)
        if failure is None:
            logger.exception("%s %s failed", context.request.method, context.request.path)
            if context.request.exchange is not None:
                context.request.exchange.panic(error)
            failure = plain_failure(500, INTERNAL_ERROR)
        elif isinstance(error, JournalError):
            logger.error("%s %s failed: %s", context.request.method, context.request.path, error)
        try:
            self._negotiate(context)
        except Exception:
            if context.request.exchange is not None:
                context.request.exchange.not_negotiated = True
        return await render.failure(context, failure)


def _measure(
    context: RequestContext, response: Response, series: Series, began: float, seconds: float
) -> None:
    """Add what is known of a request only when its response has ended, or what webhooks took of its time."""
    if isinstance(response.stream, Watch):
        response.stream.measure(series, began)
    elif response.stream is not None:
        series.add(seconds, 0)
    if response.parts is not None:
        response.parts = MeasuredParts(response.parts, series)
    if context.webhook_seconds:
        series.deduct(seconds, sum(context.webhook_seconds.values()))

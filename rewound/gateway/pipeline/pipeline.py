"""What happens to a request, from top to bottom: `Pipeline.handle` awaits one stage after the other.

A connection calls `handle` for each request and sends the response that it returns. Each stage reads the request's
context and stores its results there (`RequestContext` lists which stage sets what). A stage that raises ends the
request before any later one begins, so a refused request changes nothing. `_failure` is the only place that turns
errors into responses, except BodyNotRead, which the connection handles.

`_dispatch`, the last stage, calls the handler of the resource or path. Rejected: reusing the decisions about the
previous request when a client repeats it (docs/decisions/0031-pipeline.md).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import Final

import trio
from trio.lowlevel import current_task

from rewound.actors.access.authentication.authenticate import ANONYMOUS_USER, Authenticated
from rewound.actors.access.authorize import Attributes, Decision, Verdict, refusal
from rewound.actors.access.impersonation import impersonate
from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.errors import NoSuchResource, RequestError, Unauthorized
from rewound.actors.flowcontrol.seats import Flow, NoSeat
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import AUTHENTICATED, MASTERS, User
from rewound.actors.runtime.outside import outside, serve
from rewound.actors.runtime.trace_context import set_span
from rewound.actors.runtime.turns import user_at_work
from rewound.gateway.exchange import AuditNotStored, Exchange
from rewound.gateway.memory.budget import NO_MEMORY, TooManyRequests
from rewound.gateway.message import WEBSOCKET_PROTOCOLS, BodyNotRead, Request, Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.aggregated import (
    aggregated_at,
    find_aggregated,
    is_aggregated_watch,
    limit_forwarding,
)
from rewound.gateway.pipeline.context import NO_ROUTE, READING, PassedOnSpan, RequestContext
from rewound.gateway.pipeline.credentials import take_impersonated, take_websocket_token
from rewound.gateway.pipeline.errors import (
    RETRY_SOON,
    Failure,
    MethodNotAllowed,
    NoSuchPath,
    UnsupportedPatch,
    failure_of,
    plain_failure,
)
from rewound.gateway.pipeline.flow_control import seats_of
from rewound.gateway.pipeline.parameters import EMPTY, parse, parse_leniently
from rewound.gateway.pipeline.route import HEALTH_PATHS, Route, check_path, find_route, is_forwarded_path
from rewound.gateway.pipeline.services import CatchUp, InjectFault, PipelineServices
from rewound.gateway.wire.negotiate import (
    JSON,
    NotAcceptable,
    ResponseKind,
    negotiate,
    wants_pretty,
    wants_text,
)
from rewound.journal.errors import JournalError

logger = logging.getLogger(__name__)

INTERNAL_ERROR = "internal error; see the server's log"
# Kubernetes refuses these before a handler gets them, and so does not count them.
_NOT_SERVED: Final = (MethodNotAllowed, NoSuchResource, NotAcceptable, UnsupportedPatch)
# The user of public paths that need no credentials, also where anonymous requests are not allowed.
_UNKNOWN: Final = Authenticated(ANONYMOUS_USER)
_PUBLIC: Final = Decision(Verdict.ALLOW, "the path is public")
_SELECT_BY_NAME: Final = frozenset({"list", "watch"})
_HAVE_SELECTORS: Final = _SELECT_BY_NAME | {"deletecollection"}
_TRACE_PARENT: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_LONGEST_TRACE_STATE: Final = 512  # bytes, that every server must pass on
_RESPONSE_KINDS: Final[dict[str, ResponseKind]] = {
    "get": "item",
    "create": "item",
    "update": "item",
    "patch": "item",
    "list": "list",
    "watch": "watch",
}


class Pipeline:
    def __init__(self, services: PipelineServices) -> None:
        self.services = services

    async def handle(self, request: Request) -> Response:
        services, context = self.services, RequestContext(request, perf_counter())
        status = 0
        try:
            self._find_route(context)
            if services.catch_up is not None:
                await self._catch_up(context, services.catch_up)
            await self._authenticate(context)
            if services.tracing is not None:
                services.tracing.begin(context)
            elif b"traceparent" in request.headers:
                self._pass_on_trace(context)
            if context.exchange is not None:
                await self._audit(context, context.exchange)
            if context.block.impersonates:
                await self._impersonate(context)
            await self._control_flow(context)
            await self._authorize(context)
            if not context.forwarded and (
                context.route.is_resource or services.paths.negotiates(context.route.path)
            ):
                self._negotiate(context)
            if context.began >= services.memory.process.next_check:
                self._check_memory(context)
            if request.arriving is not None and not context.forwarded:
                await self._read_body(context, request.arriving)
            if context.span is not None:
                context.span.dispatch(context)
            response = await self._dispatch(context)
            status = response.status
        except BodyNotRead:
            raise
        except Exception as error:
            response = await self._failure(context, error)
            status = response.status
            _clear_frames(error)
        finally:
            if context.running is not None:
                context.running.now -= 1
            if context.task is not None:
                self._give_back(context)
            if context.span is not None:
                context.span.respond(status)
        self._count(context, response)
        if context.exchange is not None and context.exchange.optional is not None:
            await self._audit_response(context.exchange, response)
        return response

    def _find_route(self, context: RequestContext) -> None:
        """Parse method, path and query; find out whether another server serves the request."""
        request, remote = context.request, self.services.api_services.remote
        check_path(request.path)
        watch = bool(request.query) and self._read_query(context)
        context.route = route = find_route(request.method, request.path, watch)
        context.aggregated = find_aggregated(remote, route) if remote else None
        context.forwarded = route.forwarded or context.aggregated is not None

    def _read_query(self, context: RequestContext) -> bool:
        """Parse the query; return whether it asks for a watch."""
        request, remote = context.request, self.services.api_services.remote
        if remote and aggregated_at(remote, request.path) is not None:
            context.parameters = parse_leniently(request.query)  # the query is for another server
            return is_aggregated_watch(request.path, context.parameters)
        if "/proxy" in request.path and is_forwarded_path(request.path):
            context.parameters = parse_leniently(request.query)  # the query is for another server
            return False
        context.parameters = parse(request.query)
        if context.parameters.watch:
            return self.services.watches_items or not find_route(request.method, request.path).name
        if (seconds := context.parameters.timeout()) < inf:
            context.deadline = trio.current_time() + seconds
        return False

    async def _catch_up(self, context: RequestContext, catch_up: CatchUp) -> None:
        """Wait until this process has everything that clients may have seen from other processes or nodes."""
        if (pending := catch_up(context)) is not None:
            await pending
            self._find_route(context)  # APIServices may have changed meanwhile

    async def _authenticate(self, context: RequestContext) -> None:
        """Identify the user by headers of a proxy, client certificate or token, or as anonymous."""
        services, request, peer = self.services, context.request, context.request.peer
        authorization = request.headers.get(b"authorization")
        try:
            if WEBSOCKET_PROTOCOLS in request.headers:
                authorization = take_websocket_token(request, services.bearer_prefix) or authorization
            context.authorization = authorization
            if peer.certificate_expires and peer.certificate_expires <= services.now():
                found = services.authenticator.authenticate_expired(authorization)
            elif peer.proxy_certificate is not None:
                found = services.authenticator.authenticate_proxied(
                    authorization, peer.certificate, peer.proxy_certificate, request
                )
            else:
                found = services.authenticator.authenticate(authorization, peer.certificate)
            if not isinstance(found, Authenticated):
                found = await found
            if services.authenticator.anonymous_paths:
                self._check_anonymous(found.user, request.path)
        except Unauthorized as refused:
            self._count_unauthenticated(request)
            if context.exchange is not None:
                for key, value in refused.annotations:
                    context.exchange.annotate(key, value)
            if context.route.is_resource or not services.paths.is_public(context.route.path):
                raise
            found = _UNKNOWN
        context.authenticated, context.user = found, (user := found.user)
        if not peer.known and AUTHENTICATED in user.groups:
            peer.known = True
        user_at_work.set(user.name)
        services.metrics.authentications.succeed(user.name)
        if request.reserved:
            services.memory.assign(request, user.name)
        else:
            request.user = user.name
        if found.warnings:
            context.warnings.extend(found.warnings)
        if found.annotations and context.exchange is not None:
            for key, value in found.annotations:
                context.exchange.annotate(key, value)
        context.attributes = _attributes_of(context)

    def _pass_on_trace(self, context: RequestContext) -> None:
        """Pass the client's trace on to webhooks, although this server adds nothing to it."""
        headers = context.request.headers
        parent, state = headers[b"traceparent"], headers.get(b"tracestate", b"")
        if _TRACE_PARENT.fullmatch(parent) is None:
            return
        found = {"traceparent": parent.decode()}
        if state and len(state) <= _LONGEST_TRACE_STATE:
            found["tracestate"] = state.decode("latin-1")
        context.span = PassedOnSpan(found)
        set_span(context.span)

    def _check_anonymous(self, user: User, path: str) -> None:
        """Refuse anonymous requests for other paths than the authentication configuration names."""
        if user is ANONYMOUS_USER and path not in self.services.authenticator.anonymous_paths:
            raise Unauthorized

    def _count_unauthenticated(self, request: Request) -> None:
        """As in Kubernetes, a request without credentials is a failure, and one with wrong credentials an error."""
        if b"authorization" in request.headers or request.peer.certificate is not None:
            self.services.metrics.authentications.refused += 1
        else:
            self.services.metrics.authentications.failures += 1

    async def _audit(self, context: RequestContext, exchange: Exchange) -> None:
        """Report user and attributes to the observer, and wait until a blocking audit log has stored them."""
        exchange.attributes(context.attributes)
        if exchange.stored is not None:
            await exchange.stored()

    async def _impersonate(self, context: RequestContext) -> None:
        """Replace the user by the one that the Impersonate-* headers name, if the caller may impersonate it."""
        services, wanted = self.services, take_impersonated(context.request)
        if wanted is not None:
            context.impersonated = wanted
            request = context.attributes if services.constrained_impersonation else None
            context.user, constraint = await impersonate(
                context.user, wanted, services.authorizer, services.names, services.rules, request
            )
            if context.exchange is not None:
                context.exchange.impersonated = context.user
                if constraint:
                    context.exchange.impersonation_constraint = constraint
            context.attributes = _attributes_of(context)

    async def _control_flow(self, context: RequestContext) -> None:
        """Count the request as running, and wait for seats of its priority level.

        A request whose body has not arrived takes its seats in `_read_body`, so that slow senders do not occupy seats.
        """
        context.counted = context.route.is_resource and context.aggregated is None  # unless it is refused
        metrics, began = self.services.metrics, context.began
        reads = context.attributes.verb in READING
        context.running = running = metrics.reading if reads else metrics.mutating
        running.now += 1
        if began >= running.next:
            running.rotate(began)
        elif running.now > running.peak:
            running.peak = running.now
        context.flow = flow = self.services.limits.flow_of(context.attributes)
        if not flow.limited:
            flow.counts.dispatched += 1
            return
        context.limits, context.task = self.services.limits, current_task()
        serve(context)  # it returns its seats while it waits for another server
        if context.request.arriving is None or context.forwarded:
            await self._take_seats(context, flow)

    async def _take_seats(self, context: RequestContext, flow: Flow) -> None:
        limits = self.services.limits
        needed = seats_of(context, limits, flow)
        if not limits.try_start(flow, needed):
            context.waited = await limits.wait(flow, needed)
        context.seats = needed

    async def _authorize(self, context: RequestContext) -> None:
        """Refuse what the user may not do."""
        services, route = self.services, context.route
        decision: Decision | Awaitable[Decision] = _PUBLIC
        if route.is_resource or not services.paths.is_public(route.path):
            decision = services.authorizer.authorize(context.attributes)
        if not isinstance(decision, Decision):
            decision = await decision
        if context.exchange is not None:
            context.exchange.decided = decision
        if not decision.allowed:
            context.counted = False
            raise refusal(context.attributes, decision)

    def _negotiate(self, context: RequestContext, *, cbor: bool = True) -> None:
        """Choose the representation of the response; `cbor`: it may be CBOR if this server has that."""
        services, route, accept = self.services, context.route, context.request.headers.get(b"accept")
        if route.rewinds and wants_text(accept):
            return  # the handler responds with text
        if route.rewinds:
            response: ResponseKind = "document"
        elif route.is_resource:
            response = _RESPONSE_KINDS.get(route.verb, "other")
        else:
            response = services.paths.response_kind(route.path)
        has_cbor = response == "resources" or (route.is_resource and not route.rewinds)
        cbor = cbor and has_cbor and services.cbor is not None
        chosen = negotiate(accept, services.names, response, cbor)
        if chosen.as_kind and route.verb == "create" and services.resources.creates_review(route):
            chosen = negotiate(
                accept, services.names, "document", cbor
            )  # a review has no other representation
        protobuf = None
        if chosen.media == "protobuf":
            if route.is_resource and services.resources.has_protobuf(route) is False and not chosen.as_kind:
                chosen = negotiate(accept, services.names, response, cbor, without_protobuf=True)
            else:
                protobuf = services.protobuf
        context.representation, context.protobuf = chosen, protobuf
        context.cbor = services.cbor if chosen.media == "cbor" else None
        if asked := context.parameters.pretty:
            context.pretty = chosen.pretty or wants_pretty(asked, b"")
            return
        block = context.block
        if block.pretty is None:
            block.pretty = wants_pretty(None, context.request.headers.get(b"user-agent", b""))
        context.pretty = chosen.pretty or block.pretty

    def _check_memory(self, context: RequestContext) -> None:
        """Refuse requests while the process is above its memory limit, except those that operators need to fix it."""
        process = self.services.memory.process
        if process.is_full() and context.route.is_resource and MASTERS not in context.user.groups:
            process.refused += 1
            raise TooManyRequests(NO_MEMORY)

    async def _read_body(self, context: RequestContext, arriving: Callable[[], Awaitable[bytes]]) -> None:
        """Read the rest of the body; only now, so that bodies of refused requests are never held."""
        services, route = self.services, context.route
        if route.is_resource:
            services.resources.check(context)
        if route.is_resource or services.paths.reads_body(route.path):
            context.request.body = await arriving()
        # The priority level may have been deleted meanwhile.
        context.flow = flow = services.limits.flow_of(context.attributes)
        if flow.limited:
            if context.task is None:
                context.limits, context.task = services.limits, current_task()
                serve(context)
            await self._take_seats(context, flow)

    def _dispatch(self, context: RequestContext) -> Awaitable[Response]:
        """Choose who responds: the handler of the resource or path, another server, or a fault rule."""
        services, route = self.services, context.route
        if context.aggregated is not None:
            return self._forward(context, context.aggregated)
        if not route.is_resource:
            context.counted = context.counted or route.path in HEALTH_PATHS
            return services.paths(context)
        if services.faults.inject is not None and not context.forwarded:
            return self._inject_fault(context, services.faults.inject)
        return services.resources(context)

    async def _forward(self, context: RequestContext, aggregated: ApiService) -> Response:
        """Let the client's connection forward the request to an aggregated API server, without the seats."""
        response = await self.services.serve_api_service(context, aggregated)
        return limit_forwarding(context, response, self.services.limits)

    async def _inject_fault(self, context: RequestContext, inject: InjectFault) -> Response:
        injected = inject(context)
        if injected.delay_seconds:
            await outside(self._delay(injected.delay_seconds))
        return await injected.serve(self.services.resources)

    async def _delay(self, seconds: float) -> None:
        """An injected delay. A server that stops ends it: the request would hold up the stop, and is then aborted."""
        with trio.move_on_after(seconds):
            await self.services.faults.stopping.wait()

    def _give_back(self, context: RequestContext) -> None:
        """Return the seats of the request."""
        serve(None)
        if context.seats and context.flow is not None:
            self.services.limits.end(context.flow, context.seats, context.waited)

    async def _failure(self, context: RequestContext, error: Exception) -> Response:
        """The response to a request that failed."""
        if isinstance(error, NotAcceptable) and context.route.is_resource:
            try:
                self.services.resources.check(context)
            except Exception as missing:
                error = missing  # what does not exist is a 404 before it is a 406
        match error:
            case NoSuchPath():
                return render.text("404 page not found\n", 404)
            case AuditNotStored():
                path = quoted_start(context.request.path)
                return render.text(f"Internal Server Error: {path}: {error}\n", 500)
            case NoSeat():
                response = render.text(f"{error}\n", 429)
                response.headers.extend(RETRY_SOON)
                return response
        context.counted = context.counted and not isinstance(error, _NOT_SERVED)
        return await self._status(context, error)

    async def _status(self, context: RequestContext, error: Exception) -> Response:
        """Respond with a Status; log internal errors, whose text is not for the client."""
        request, exchange, failure = context.request, context.exchange, failure_of(error)
        if isinstance(error, RequestError) and error.warnings:
            context.warnings.extend(error.warnings)
        if context.route is NO_ROUTE:
            context.route = Route(request.method.lower(), request.path, is_resource=False)
        if failure is None:
            logger.error("%s %s failed", request.method, request.path, exc_info=error)
            if exchange is not None:
                exchange.panic(error)
            failure = plain_failure(500, INTERNAL_ERROR)
        elif isinstance(error, JournalError):
            logger.error("%s %s failed: %s", request.method, request.path, error)
        else:
            self._note_refused(context, failure)
        # Kubernetes has no CBOR before a handler takes the request.
        cbor = context.cbor is not None and not isinstance(error, _NOT_SERVED)
        try:
            self._negotiate(context, cbor=cbor)
        except Exception:
            context.representation, context.protobuf, context.cbor = JSON, None, None
            if exchange is not None:
                exchange.not_negotiated = True
        return await render.failure(context, failure)

    def _note_refused(self, context: RequestContext, failure: Failure) -> None:
        note, route = self.services.note_refused, context.route
        if note is not None and route.is_resource and route.verb not in READING:
            note(context, failure)

    def _count(self, context: RequestContext, response: Response) -> None:
        """Add the request to the metrics; a forwarded one is added when the other server responds."""
        services, requests = self.services, self.services.metrics.requests
        if context.flow is not None:
            response.shared = context.flow.mark
        if response.forwarding is not None:
            response.forwarding.report = partial(self._count_forwarded, context)
            if context.counted:
                response.forwarding = requests.while_forwarded(
                    context.request, context.route, response.forwarding
                )
            return
        seconds = perf_counter() - context.began
        if not context.counted:
            requests.count_other(response.status)
        else:
            series = requests.find(context.request, context.route, response.status)
            if response.stream is None:
                series.add(seconds, len(response.body))
            if response.stream is not None or response.parts is not None or context.webhook_seconds:
                requests.measure(context, response, series, seconds)
        if seconds > services.slow_requests.logged:
            services.slow_requests.completed(context.request, seconds)

    def _count_forwarded(self, context: RequestContext, status: int) -> None:
        """Count a forwarded request, whose response has started. Aggregated API servers count their own requests."""
        requests = self.services.metrics.requests
        if context.counted:
            series = requests.find(context.request, context.route, status)
            series.add(perf_counter() - context.began, 0)
        else:
            requests.count_other(status)

    async def _audit_response(self, exchange: Exchange, response: Response) -> None:
        """In a blocking mode of the audit log, wait until it has stored the event of the response."""
        if exchange.responding is not None and response.forwarding is None:
            exchange.responding(response)
        if exchange.stored is not None:
            await exchange.stored()


def needs_newest(context: RequestContext) -> bool:
    """Whether a request has to see all writes that were acknowledged before it, also those to access rules.

    Reads and watches that name a version do not, nor do non-resource paths.
    """
    parameters = context.parameters
    if not context.route.is_resource:
        return False
    if context.route.verb not in READING or not parameters:
        return True
    return not parameters.first("resourceVersion") and not parameters.first("continue")


def _attributes_of(context: RequestContext) -> Attributes:
    """The attributes that authorizers decide on: route, user, selectors, and the name that a field selector selects."""
    route, user = context.route, context.user
    if not route.is_resource:
        return Attributes(user, route.verb, path=route.path, is_resource=False)
    name = route.name
    if not name and route.verb in _SELECT_BY_NAME:
        name = context.parameters.selected_name()
    verb, group, version, resource = route.verb, route.group, route.version, route.resource
    subresource, namespace, path = route.subresource, route.namespace, route.path
    if context.parameters is not EMPTY and verb in _HAVE_SELECTORS:
        fields = context.parameters.first("fieldSelector") or ""
        labels = context.parameters.first("labelSelector") or ""
        return Attributes(
            *(user, verb, group, version, resource, subresource, namespace, name, path, True, fields, labels)
        )
    return Attributes(user, verb, group, version, resource, subresource, namespace, name, path)


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames in the traceback of a handled error.

    A frame that refers to its own error is a reference cycle. It would keep the request and its objects, which may be
    megabytes, until the next full collection.
    """
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            try:
                trace.tb_frame.clear()
            except RuntimeError:
                pass  # it still runs
            trace = trace.tb_next
        error = error.__context__

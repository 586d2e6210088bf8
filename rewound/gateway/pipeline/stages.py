"""The stages of a request, in the order in which `Pipeline.handle` calls them; the last one makes the response.

Each is a function of the context, and returns an awaitable if it has to wait. What it finds out it sets in the
context (`RequestContext` says which stage sets what). A stage that fails ends the request before any later one begins,
so a refused request changes nothing. Where the context has a `remembered` request, which this one repeats, stages take
from it what they would find out again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf
from typing import Final

import trio

from rewound.actors.access.authentication.authenticate import ANONYMOUS_USER, Authenticated
from rewound.actors.access.authorize import Decision, Verdict, refusal, rights_of
from rewound.actors.access.impersonation import impersonate as authorized_identity
from rewound.actors.errors import Unauthorized
from rewound.actors.flowcontrol.priority_and_fairness import BYTES_PER_SEAT
from rewound.actors.flowcontrol.seats import Flow
from rewound.actors.identity import AUTHENTICATED, MASTERS
from rewound.actors.runtime.outside import outside
from rewound.actors.runtime.turns import user_at_work
from rewound.gateway.exchange import Exchange
from rewound.gateway.memory.budget import NO_MEMORY, TooManyRequests
from rewound.gateway.memory.process import ProcessMemory
from rewound.gateway.message import WEBSOCKET_PROTOCOLS, Request, Response
from rewound.gateway.pipeline.aggregated import (
    aggregated_at,
    find_aggregated,
    is_aggregated_watch,
    respond_in_turn,
)
from rewound.gateway.pipeline.attributes import attributes_of
from rewound.gateway.pipeline.authentication import authenticate_request
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.flow_control import seat, seats_of
from rewound.gateway.pipeline.impersonation import take_wanted_identity
from rewound.gateway.pipeline.negotiation import choose_representation
from rewound.gateway.pipeline.parameters import parse, parse_leniently
from rewound.gateway.pipeline.route import (
    CACHED_LENGTH,
    HEALTH_PATHS,
    cached_route,
    find_route,
    is_forwarded_path,
)
from rewound.gateway.pipeline.services import PipelineServices
from rewound.gateway.wire.negotiate import NotAcceptable

UNKNOWN: Final = Authenticated(
    ANONYMOUS_USER
)  # on public paths, also where anonymous requests are not allowed
PUBLIC: Final = Decision(Verdict.ALLOW, "the path is public")
_ALLOW: Final = Verdict.ALLOW
_READING: Final = frozenset({"get", "list", "watch"})

Later = Awaitable[None] | None


def route(context: RequestContext, services: PipelineServices) -> None:
    """What the request is about, and whether another server serves it."""
    request, remote = context.request, services.api_services.remote
    watch = bool(request.query) and _read_query(context, services)
    path = request.path
    find = cached_route if len(path) <= CACHED_LENGTH else find_route
    context.route = found = find(request.method, path, watch)
    if remote:
        context.aggregated = find_aggregated(remote, found)
        context.forwarded = found.forwarded or context.aggregated is not None
    else:
        context.forwarded = found.forwarded


def _read_query(context: RequestContext, services: PipelineServices) -> bool:
    """Parse the query; whether it asks for a watch."""
    request, remote = context.request, services.api_services.remote
    if remote and aggregated_at(remote, request.path) is not None:
        context.parameters = parse_leniently(request.query)  # it is for another server
        return is_aggregated_watch(request.path, context.parameters)
    if "/proxy" in request.path and is_forwarded_path(request.path):
        context.parameters = parse_leniently(request.query)  # it is for another server
        return False
    context.parameters = parse(request.query)
    if context.parameters.boolean("watch"):
        return services.watches_items or not find_route(request.method, request.path).name
    if (seconds := context.parameters.timeout()) < inf:
        context.deadline = trio.current_time() + seconds
    return False


def needs_newest(context: RequestContext) -> bool:
    """Whether a request depends on all that was acknowledged before it, rights included.

    Reads and watches that name a version do not, nor what is no resource.
    """
    parameters = context.parameters
    if not context.route.is_resource:
        return False
    if context.route.verb not in _READING or not parameters:
        return True
    return not parameters.first("resourceVersion") and not parameters.first("continue")


def authenticate(context: RequestContext, services: PipelineServices) -> Later:
    """Who sends the request. Every time: tokens expire and are revoked."""
    request = context.request
    try:
        if request.peer.certificate_expires or WEBSOCKET_PROTOCOLS in request.headers:
            found = authenticate_request(
                services.authenticator, request, services.clock, services.bearer_prefix
            )
        else:
            found = services.authenticator.by_header(request.headers.get(b"authorization"))
    except Unauthorized as error:
        found = _unauthenticated(context, services, error)
    if isinstance(found, Authenticated):
        _identify(context, services, found)
        return None
    return _wait_for_identity(context, services, found)


async def _wait_for_identity(
    context: RequestContext, services: PipelineServices, pending: Awaitable[Authenticated]
) -> None:
    try:
        found = await pending
    except Unauthorized as error:
        found = _unauthenticated(context, services, error)
    _identify(context, services, found)


def _unauthenticated(
    context: RequestContext, services: PipelineServices, error: Unauthorized
) -> Authenticated:
    """Refuse the request, unless its path is public."""
    _count_unauthenticated(context.request, services)
    if context.route.is_resource or not services.paths.is_public(context.route.path):
        raise error
    return UNKNOWN


def _count_unauthenticated(request: Request, services: PipelineServices) -> None:
    """Without credentials it is a failure, with others an error, as in Kubernetes."""
    if b"authorization" in request.headers or request.peer.certificate is not None:
        services.metrics.authentications.refused += 1
    else:
        services.metrics.authentications.failures += 1


def _identify(context: RequestContext, services: PipelineServices, found: Authenticated) -> None:
    request, rights = context.request, services.rights
    context.user = user = found.user
    if not request.peer.known and AUTHENTICATED in user.groups:
        request.peer.known = True
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
    changes = None if rights is None else rights.changes
    versions = (services.number, changes, services.limits.version, services.registry.version)
    if not context.recall(versions):
        context.attributes = attributes_of(context)


def audit(context: RequestContext, exchange: Exchange) -> Later:
    """Report who wants what; in a blocking mode, wait until that is stored."""
    exchange.attributes(context.attributes)
    return None if exchange.stored is None else exchange.stored()


async def impersonate(context: RequestContext, services: PipelineServices) -> None:
    """The request goes on as the user that its headers name, if the caller may impersonate it."""
    wanted = take_wanted_identity(context.request)
    if wanted is not None:
        context.user = await authorized_identity(
            context.user, wanted, services.authorizer, services.names, services.rules
        )
        if context.exchange is not None:
            context.exchange.impersonated = context.user
    context.attributes = attributes_of(context)


def flow_control(context: RequestContext, services: PipelineServices) -> Later:
    """Count the request as running, and take the seats of its priority level, or wait for them."""
    context.counted = context.route.is_resource and context.aggregated is None  # unless it is refused
    verb, began = context.attributes.verb, context.began
    running = services.metrics.reading if verb in _READING else services.metrics.mutating
    context.running = running
    running.now += 1
    if began >= running.next:
        running.rotate(began)
    elif running.now > running.peak:
        running.peak = running.now
    limits, flow = services.limits, context.flow
    if flow is None:
        flow = context.flow = limits.flow_of(context.attributes)
    if not flow.limited:
        flow.counts.dispatched += 1
        return None
    request = context.request
    if request.arriving is not None and not context.forwarded:
        return None  # once the body has been read
    needed = 1
    if verb == "list" or len(request.body) > BYTES_PER_SEAT:
        needed = seats_of(context, limits, flow)
    if limits.try_start(flow, needed):
        context.seats = needed
        return None
    return _wait_for_seats(context, services, flow, needed)


async def _wait_for_seats(
    context: RequestContext, services: PipelineServices, flow: Flow, needed: int
) -> None:
    context.waited = await services.limits.wait(flow, needed)
    context.seats = needed


def authorize(context: RequestContext, services: PipelineServices) -> Later:
    """Refuse what the user may not do."""
    decision = services.authorizer.authorize(context.attributes)
    if isinstance(decision, Decision):
        _decide(context, services, decision)
        return None
    seat(context, services.limits)
    return _wait_for_decision(context, services, decision)


async def _wait_for_decision(
    context: RequestContext, services: PipelineServices, pending: Awaitable[Decision]
) -> None:
    _decide(context, services, await pending)


def _decide(context: RequestContext, services: PipelineServices, decision: Decision) -> None:
    route = context.route
    if not route.is_resource and not decision.allowed and services.paths.is_public(route.path):
        decision = PUBLIC
    context.decision = decision
    if context.exchange is not None:
        context.exchange.decided = decision
    if decision.verdict is not _ALLOW:
        context.counted = False
        raise refusal(context.attributes, decision)


def negotiate(context: RequestContext, services: PipelineServices) -> None:
    """In which representation the client wants its response."""
    is_resource = context.route.is_resource
    if context.forwarded or not (is_resource or services.paths.negotiates(context.route.path)):
        return
    try:
        choose_representation(context, services)
    except NotAcceptable:
        if is_resource:
            services.resources.check(context)  # what does not exist is a 404 before it is a 406
        raise


def read(context: RequestContext, services: PipelineServices) -> Later:
    """Read the rest of the body: now, so that the server holds no body that it will not use."""
    if context.began >= services.memory.process.next_check:
        _check_memory(context, services.memory.process)
    if context.request.arriving is None or context.forwarded:
        return None
    return _read_body(context, services)


def _check_memory(context: RequestContext, process: ProcessMemory) -> None:
    """Refuse requests while the process is above its limit, except what operators need to see or end that."""
    if process.is_full() and context.route.is_resource and MASTERS not in context.user.groups:
        process.refused += 1
        raise TooManyRequests(NO_MEMORY)


async def _read_body(context: RequestContext, services: PipelineServices) -> None:
    """Of a request that has somewhere to go; few other paths read bodies. A client that sends slowly has no seats."""
    request = context.request
    if context.route.is_resource:
        services.resources.check(context)
    if context.route.is_resource or services.paths.reads_body(context.route.path):
        assert request.arriving is not None
        request.body = await request.arriving()
    limits = services.limits
    context.flow = flow = limits.flow_of(context.attributes)  # its level may have been deleted meanwhile
    if flow.limited:
        needed = seats_of(context, limits, flow)
        if not limits.try_start(flow, needed):
            context.waited = await limits.wait(flow, needed)
        context.seats = needed


def dispatch(context: RequestContext, services: PipelineServices) -> Response | Awaitable[Response]:
    """The response: of a handler of the resource or path, of another server, or with a fault."""
    route = context.route
    if context.aggregated is not None:
        return _serve_aggregated(context, services)
    if services.faults.inject is not None and route.is_resource and not context.forwarded:
        return _serve_with_fault(context, services)
    remembered = context.remembered
    if remembered is not None and remembered.served is not None:
        definition, serve = remembered.served
        return serve(context, definition)
    if not route.is_resource:
        context.counted = context.counted or route.path in HEALTH_PATHS
        return services.paths(context)
    response = services.resources.serve(context)
    if remembered is not None:
        remembered.served = services.resources.served(context)
    elif context.block.path != context.request.path:
        context.block.path = context.request.path  # most requests with another path are not repeated
    elif _may_be_remembered(context, services):
        context.remember(services.resources.served(context))
    return response


def _may_be_remembered(context: RequestContext, services: PipelineServices) -> bool:
    return (
        bool(context.computed_from)
        and not context.forwarded
        and not context.block.impersonates
        and rights_of(services.authorizer, context.user) is not None
    )


async def _serve_aggregated(context: RequestContext, services: PipelineServices) -> Response:
    """Have another server respond; the client's connection forwards the request to it, without the seat."""
    assert context.aggregated is not None
    response = await services.serve_api_service(context, context.aggregated)
    return respond_in_turn(context, response, services.limits)


async def _serve_with_fault(context: RequestContext, services: PipelineServices) -> Response:
    assert services.faults.inject is not None
    injected = services.faults.inject(context)
    if injected.delay_seconds:
        await outside(trio.sleep(injected.delay_seconds))
    return await injected.serve(services.resources)

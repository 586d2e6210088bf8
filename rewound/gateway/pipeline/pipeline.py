"""What happens to a request, from top to bottom: `Pipeline.handle` calls one stage after the other (`stages`).

Connections call it once per request and send its response. It raises BodyNotRead alone: every other error becomes a
response in `_failure`, the only place that translates them. What a repeated request may skip is in
`gateway.pipeline.remembered`. `_count` adds the request to the metrics.
"""

from __future__ import annotations

import logging
from functools import partial
from time import perf_counter
from typing import Final

from rewound.actors.errors import NoSuchResource, RequestError
from rewound.actors.flowcontrol.seats import NoSeat
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.runtime.outside import serve
from rewound.gateway.exchange import AuditNotStored, Exchange
from rewound.gateway.message import BodyNotRead, Request, Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import NO_ROUTE, RequestContext
from rewound.gateway.pipeline.errors import (
    RETRY_SOON,
    MethodNotAllowed,
    NoSuchPath,
    UnsupportedPatch,
    failure_of,
    plain_failure,
)
from rewound.gateway.pipeline.flow_control import seat
from rewound.gateway.pipeline.negotiation import choose_representation
from rewound.gateway.pipeline.route import Route
from rewound.gateway.pipeline.services import PipelineServices
from rewound.gateway.pipeline.stages import (
    audit,
    authenticate,
    authorize,
    dispatch,
    flow_control,
    impersonate,
    negotiate,
    read,
    route,
)
from rewound.gateway.wire.negotiate import NotAcceptable
from rewound.journal.errors import JournalError

logger = logging.getLogger(__name__)

INTERNAL_ERROR = "internal error; see the server's log"
# No handler gets these requests in Kubernetes, which therefore does not count them.
_NOT_SERVED: Final = (MethodNotAllowed, NoSuchResource, NotAcceptable, UnsupportedPatch)


class Pipeline:
    def __init__(self, services: PipelineServices) -> None:
        self.services = services

    async def handle(self, request: Request) -> Response:
        services = self.services
        context = RequestContext(request, perf_counter())
        try:
            route(context, services)
            if services.catch_up is not None and (later := services.catch_up(context)) is not None:
                await later
                route(context, services)  # APIServices may have changed meanwhile
            if (later := authenticate(context, services)) is not None:
                await later
            if context.exchange is not None and (later := audit(context, context.exchange)) is not None:
                await later
                context.remembered = None  # rules may have changed meanwhile
            if context.block.impersonates:
                await impersonate(context, services)
            if (later := flow_control(context, services)) is not None:
                await later
                context.remembered = None
            if context.remembered is None:
                if (later := authorize(context, services)) is not None:
                    await later
                negotiate(context, services)
            elif context.exchange is not None:
                context.exchange.decided = context.decision
            if (later := read(context, services)) is not None:
                await later
            found = dispatch(context, services)
            if isinstance(found, Response):
                response = found
            else:
                seat(context, services.limits)
                response = await found
        except BodyNotRead:
            raise  # the connection responds
        except Exception as error:
            response = await _failure(context, services, error)
            _clear_frames(error)
        finally:
            if context.running is not None:
                context.running.now -= 1
            if context.seated is not None:
                serve(None)
                # Each refers to the other: a request of megabytes would stay until the next full collection.
                context.seated = None
            if context.seats and context.flow is not None:
                services.limits.end(context.flow.level, context.seats, context.waited)
        _count(context, services, response)
        if context.exchange is not None and context.exchange.optional is not None:
            await _audit_response(context.exchange, response)
        return response


def _clear_frames(error: BaseException | None) -> None:
    """Empty the frames that a handled error has passed.

    An error that one of them refers to is a cycle. It would hold the request and its objects, which may be megabytes,
    until the next full collection.
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


async def _failure(context: RequestContext, services: PipelineServices, error: Exception) -> Response:
    """The response to a request that failed."""
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
    return await _status(context, services, error)


async def _status(context: RequestContext, services: PipelineServices, error: Exception) -> Response:
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
    try:
        choose_representation(context, services)
    except Exception:
        if exchange is not None:
            exchange.not_negotiated = True
    return await render.failure(context, failure)


async def _audit_response(exchange: Exchange, response: Response) -> None:
    """In a blocking mode of the audit log: wait until it has stored what becomes of the request."""
    if exchange.responding is not None and response.forwarding is None:
        exchange.responding(response)
    if exchange.stored is not None:
        await exchange.stored()


def _count(context: RequestContext, services: PipelineServices, response: Response) -> None:
    """Add the request to the metrics; one that another server serves when it responds."""
    if context.flow is not None:
        response.shared = context.flow.mark
    if response.forwarding is not None:
        response.forwarding.report = partial(_count_forwarded, context, services)
        if context.counted:
            requests = services.metrics.requests
            response.forwarding = requests.while_forwarded(
                context.request, context.route, response.forwarding
            )
        return
    seconds, requests = perf_counter() - context.began, services.metrics.requests
    if not context.counted:
        requests.count_other(response.status)
    else:
        remembered = context.remembered
        if remembered is None:
            series = requests.find(context.request, context.route, response.status)
        elif remembered.status == response.status and remembered.series is not None:
            series = remembered.series
        else:
            series = requests.find(context.request, context.route, response.status)
            remembered.status, remembered.series = response.status, series
        if response.stream is None:
            series.add(seconds, len(response.body))
        if response.stream is not None or response.parts is not None or context.webhook_seconds:
            requests.measure(context, response, series, seconds)
    if seconds > services.slow_requests.logged:
        services.slow_requests.completed(context.request, seconds)


def _count_forwarded(context: RequestContext, services: PipelineServices, status: int) -> None:
    """Count a response of another server, which has started. That of an aggregated API counts it itself."""
    if context.counted:
        series = services.metrics.requests.find(context.request, context.route, status)
        series.add(perf_counter() - context.began, 0)
    else:
        services.metrics.requests.count_other(status)

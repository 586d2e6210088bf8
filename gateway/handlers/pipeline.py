"""The steps of a request, top to bottom: authenticate, impersonate, authorize, negotiate, dispatch.

`handle` never raises: every error becomes a Status. A step that fails ends the request before any later step has
begun, so a refused request has changed nothing. Connections call it once per request and send its response.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable

from actors.access.anonymous import NOBODY
from actors.access.attributes import Attributes
from actors.access.authenticate import Authenticated, Authenticator
from actors.access.authorize import Authorizer, Decision, forbidden
from actors.errors import BadRequest, Forbidden
from actors.names import Names
from actors.selectors import FieldSelector
from gateway.connections.parser import wants_websocket
from gateway.connections.websocket.handshake import PROTOCOLS, bearer_prefix, take_bearer
from gateway.handlers.dispatch import Dispatch
from gateway.handlers.paths import Paths
from gateway.ops.metrics import Metrics
from gateway.requests import render
from gateway.requests.call import Call
from gateway.requests.errors import NoSuchPath, failure_of, plain_failure
from gateway.requests.parameters import NOTHING, parse
from gateway.requests.request import Request, Response
from gateway.requests.route import Route, find_route
from gateway.wire.negotiate import NotAcceptable, Shape, negotiate, wants_pretty
from gateway.wire.protobuf.messages import Messages

logger = logging.getLogger(__name__)

BROKEN = "an error of the server's own stopped this request; the server's log tells more"


NOWHERE = Route("", "", is_resource=False)
_BY_NAME = frozenset({"list", "watch"})
_SHAPES: dict[str, Shape] = {
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
        metrics: Metrics,
        messages: Messages,
    ) -> None:
        self._names = names
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._dispatch = dispatch
        self._paths = paths
        self._metrics = metrics
        self._messages = messages
        self._bearer_prefix = bearer_prefix(names)

    async def handle(self, request: Request) -> Response:
        began = time.perf_counter()
        call = Call(request, NOWHERE, NOTHING, NOBODY)
        try:
            watch = False
            if request.query:
                call.parameters = parse(request.query)
                watch = call.parameters.boolean("watch")
                if not watch:
                    call.parameters.check_timeout()
            call.route = find_route(request.method, request.path, watch=watch)
            who = self._authenticate(request)
            if not isinstance(who, Authenticated):
                who = await who
            call.user = who.user
            if who.warnings:
                call.warnings.extend(who.warnings)
            self._refuse_impersonation(request)
            attributes = _attributes(call)
            exchange = request.exchange
            if exchange is not None:
                exchange.attributes(attributes)
            decision = self._authorizer.authorize(attributes)
            if not isinstance(decision, Decision):
                decision = await decision
            if exchange is not None:
                exchange.decision(decision)
            if not decision.allowed:
                raise forbidden(attributes, decision.reason)
            if call.route.is_resource or self._paths.negotiates(call.route.path):
                self._agree(call)
            response = await (self._dispatch(call) if call.route.is_resource else self._paths(call))
        except NoSuchPath:
            response = render.text("404 page not found\n", 404)
        except Exception as error:
            response = await self._failed(call, error)
        self._metrics.observe(
            call.route.verb,
            call.route.group,
            call.route.resource,
            response.status,
            time.perf_counter() - began,
        )
        return response

    def _authenticate(self, request: Request) -> Authenticated | Awaitable[Authenticated]:
        authorization = request.headers.get(b"authorization")
        if PROTOCOLS in request.headers:
            authorization = self._token_of_websocket(request) or authorization
        return self._authenticator.authenticate(authorization, request.peer.certificate)

    def _token_of_websocket(self, request: Request) -> bytes | None:
        """A browser cannot set an Authorization header on a WebSocket: the token comes as a subprotocol."""
        if not wants_websocket(request.headers):
            return None
        token = take_bearer(request.headers, self._bearer_prefix)
        return None if b"authorization" in request.headers else token

    @staticmethod
    def _refuse_impersonation(request: Request) -> None:
        """Acting as oneself where another identity was asked for would be worse than refusing."""
        for name in request.headers:
            if name[:12] == b"impersonate-":
                why = "impersonation is not served yet: send the request without Impersonate-* headers"
                raise Forbidden(None, "", why)

    def _agree(self, call: Call) -> None:
        """Negotiate the representation; a resource that does not exist is a 404 before it is a 406."""
        try:
            self._negotiate(call)
        except NotAcceptable:
            if call.route.is_resource:
                self._dispatch.check(call)
            raise

    def _negotiate(self, call: Call) -> None:
        headers = call.request.headers
        route = call.route
        shape = _SHAPES.get(route.verb, "other") if route.is_resource else self._paths.shape(route.path)
        call.representation = negotiate(headers.get(b"accept"), self._names, shape)
        if call.representation.form and route.verb == "create" and self._dispatch.creates_review(route):
            # A review is shown in full or not at all.
            call.representation = negotiate(headers.get(b"accept"), self._names, "document")
        if call.representation.media == "protobuf":
            call.messages = self._messages
        asked = call.parameters.first("pretty")
        call.pretty = call.representation.pretty or wants_pretty(asked, headers.get(b"user-agent", b""))

    async def _failed(self, call: Call, error: Exception) -> Response:
        failed = failure_of(error)
        if call.route is NOWHERE:
            call.route = Route(call.request.method.lower(), call.request.path, is_resource=False)
        if failed is None:
            logger.exception("%s %s failed", call.request.method, call.request.path)
            if call.request.exchange is not None:
                call.request.exchange.panic(error)
            failed = plain_failure(500, BROKEN)
        try:
            self._negotiate(call)
        except Exception:
            pass
        return await render.failure(call, failed)


def _attributes(call: Call) -> Attributes:
    route = call.route
    if not route.is_resource:
        return Attributes(call.user, route.verb, path=route.path, is_resource=False)
    return Attributes(
        call.user,
        route.verb,
        route.group,
        route.version,
        route.resource,
        route.subresource,
        route.namespace,
        route.name or _selected_name(call),
        route.path,
    )


def _selected_name(call: Call) -> str:
    """A list or watch that its selector narrows to one name may be allowed by a right to that name alone."""
    text = call.parameters.first("fieldSelector") if call.route.verb in _BY_NAME else None
    if not text:
        return ""
    try:
        name = FieldSelector.parse(text).exact("metadata.name") or ""
    except BadRequest:
        return ""  # dispatch refuses the selector, once the request is authorized
    return "" if name in (".", "..") or "/" in name or "%" in name else name

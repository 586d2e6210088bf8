"""Forwards requests of aggregated group versions, after this server has authenticated and authorized them.

The other server gets the request unchanged, with the user in separate header fields instead of the client's
credentials. Errors before that are plain text, as clients know them from Kubernetes.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import trio

from rewound.actors.access.authentication.authenticate import RequestHeaders
from rewound.actors.admission.webhooks.services import Unresolved
from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.certificates.trust import InvalidBundle
from rewound.actors.errors import RequestError
from rewound.gateway.aggregation.identity import Field, UnusableIdentity, is_about_user, user_fields
from rewound.gateway.aggregation.servers import AggregatedServers
from rewound.gateway.message import Response
from rewound.gateway.outgoing.response import Head
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import BackendUnavailable
from rewound.gateway.proxy.forward import Adapter, Forward, Transform
from rewound.gateway.proxy.upstream import Target, Upstream

UNAVAILABLE: Final = "service unavailable"
REDIRECTED: Final = "the backend attempted to redirect this request, which is not permitted"
# Encodes a path like Go does.
_UNESCAPED: Final = "/$&+,:;=@-_.~"
_REPEATED_SLASHES: Final = re.compile("//+")


class ServiceAdapter(Adapter):
    cors = False

    def __init__(
        self,
        identity: list[Field],
        proxy_headers: RequestHeaders | None,
        audit_id: bytes,
        forwarded: list[Field],
    ) -> None:
        """`forwarded`: fields about the request's target, which replace those of the client."""
        self._identity = identity
        self._forwarded = forwarded
        self._proxy_headers = proxy_headers
        self._audit_id = audit_id

    def complete_fields(self, fields: list[Field], *, upgrading: bool) -> list[Field]:
        kept = [one for one in fields if not is_about_user(one[0], self._proxy_headers)]
        if upgrading:
            # Only this word: others could name a field about the user, which the other server would then drop.
            kept = [one for one in kept if one[0] != b"connection"]
            kept.append((b"connection", b"Upgrade"))
        else:
            replaced = {name for name, _ in self._forwarded}
            kept = [*(one for one in kept if one[0] not in replaced), *self._forwarded]
        if self._audit_id:
            kept = [one for one in kept if one[0] != b"audit-id"]
            kept.append((b"audit-id", self._audit_id))
        return [*kept, *self._identity]

    async def response(self, head: Head, upstream: Upstream) -> tuple[Response, Transform | None]:
        if 300 <= head.status < 400 and head.get(b"location"):
            raise Redirected
        return await super().response(head, upstream)

    def unreachable(self, why: str, *, upgrading: bool) -> RequestError:
        what = "error dialing backend" if upgrading else "error trying to reach service"
        return BackendUnavailable(f"{what}: {why}")


class Redirected(RequestError):
    """An aggregated server redirects the client, with its credentials, somewhere else."""

    message = REDIRECTED


class AggregationHandler:
    def __init__(
        self, servers: AggregatedServers, proxy_headers: RequestHeaders | None, stopping: trio.Event
    ) -> None:
        """`proxy_headers`: those in which an authenticating proxy names users to this server."""
        self._servers = servers
        self._proxy_headers = proxy_headers
        self._stopping = stopping

    async def serve(self, context: RequestContext, one: ApiService) -> Response:
        if not one.available:
            return _text(UNAVAILABLE, 503)
        path = quote(context.route.path, _UNESCAPED, errors="surrogateescape")
        if any(part in (".", "..") for part in path.split("/")):
            return _text("404 page not found", 404)  # the other server could take it for another path
        try:
            target = await self._servers.target(one, path, context.request.query)
            identity = user_fields(context.user)
        except Unresolved:
            return _text(UNAVAILABLE, 503)
        except InvalidBundle as error:
            return _text(str(error), 500)
        except UnusableIdentity:
            return _text("error trying to reach service: the user has no name that a header can carry", 503)
        exchange = context.exchange
        audit_id = exchange.audit_id if exchange is not None else b""
        forward = Forward(
            context.request,
            target,
            ServiceAdapter(identity, self._proxy_headers, audit_id, _forwarded(target)),
            self._stopping,
            _fail,
            warnings=tuple(render.warnings_of(context)),
            connections=self._servers.connections,
        )
        return Response(200, b"", forwarding=forward)


def _forwarded(target: Target) -> list[Field]:
    """The fields that Kubernetes sends about the request as the other server gets it: at the path that clients use."""
    return [
        (b"x-forwarded-uri", _REPEATED_SLASHES.sub("/", target.path).encode("latin-1")),
        (b"x-forwarded-host", target.authority.encode("latin-1")),
        (b"x-forwarded-proto", b"https"),
    ]


async def _fail(error: RequestError) -> Response:
    return _text(str(error), 502 if isinstance(error, Redirected) else 503)


def _text(message: str, status: int) -> Response:
    return render.text(f"{message}\n", status)

"""The credentials of a request: Authorization header, client certificate, headers of a proxy, or a WebSocket's token.

A browser cannot set an Authorization header on a WebSocket, but it can offer subprotocols. So one of them may carry
the token; the server never selects that one:

    Sec-WebSocket-Protocol: base64url.bearer.authorization.cluster.io.YWRtaW4tdG9rZW4, v1.example

A client has to offer another one too, because a browser accepts no connection for which the server selects none.
The token is removed before any other use; the connection selects among the rest.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable

from rewound.actors.access.authentication.authenticate import Authenticated, Authenticator, HeaderFields
from rewound.actors.errors import Unauthorized
from rewound.actors.names import Names
from rewound.actors.runtime.clock import Clock
from rewound.gateway.message import WEBSOCKET_PROTOCOLS, Request, wants_websocket, websocket_protocols


def authenticate_request(
    authenticator: Authenticator, request: Request, clock: Clock, prefix: bytes
) -> Authenticated | Awaitable[Authenticated]:
    """Authenticate a request that may have more than an Authorization header."""
    authorization = request.headers.get(b"authorization")
    if WEBSOCKET_PROTOCOLS in request.headers:
        authorization = _websocket_token(request, prefix) or authorization
    peer = request.peer
    if peer.certificate_expires and peer.certificate_expires <= clock.now():
        return authenticator.authenticate_expired(authorization)
    if peer.proxy_certificate is not None:
        return authenticator.authenticate_proxied(
            authorization, peer.certificate, peer.proxy_certificate, request
        )
    return authenticator.authenticate(authorization, peer.certificate)


def _websocket_token(request: Request, prefix: bytes) -> bytes | None:
    """The token that a browser sends as a subprotocol, because it cannot set an Authorization header."""
    if not wants_websocket(request.headers):
        return None
    token = take_bearer(request, prefix)
    return None if b"authorization" in request.headers else token


def bearer_prefix(names: Names) -> bytes:
    return f"base64url.bearer.{names.group('authorization')}.".encode()


def take_bearer(fields: HeaderFields, prefix: bytes) -> bytes | None:
    """Remove the token from the offered subprotocols; return it as an Authorization header, None without one."""
    offered = websocket_protocols(fields.headers)
    tokens = [one[len(prefix) :] for one in offered if one.startswith(prefix)]
    if not tokens:
        return None
    others = [one for one in offered if not one.startswith(prefix)]
    fields.headers[WEBSOCKET_PROTOCOLS] = b", ".join(others)
    if fields.repeated:  # requests with the same head share it
        fields.repeated = {
            name: values for name, values in fields.repeated.items() if name != WEBSOCKET_PROTOCOLS
        }
    if len(tokens) > 1 or not tokens[0] or not others:
        raise Unauthorized
    try:
        token = base64.b64decode(tokens[0] + b"=" * (-len(tokens[0]) % 4), altchars=b"-_", validate=True)
        token.decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthorized from None
    if token.split() != [token]:
        raise Unauthorized  # in a header, the space would end the token or make it none
    return b"Bearer " + token

"""Headers about the user besides Authorization: the token of a WebSocket, and Impersonate-*.

A browser cannot set an Authorization header on a WebSocket, but it can offer subprotocols. So one of them may carry
the token; the server never selects that one:

    Sec-WebSocket-Protocol: base64url.bearer.authorization.cluster.io.YWRtaW4tdG9rZW4, v1.example

A client has to offer another one too, because a browser accepts no connection for which the server selects none.

A request that impersonates a group, uid or extra value without a user is refused: serving it as the caller would use
rights that the client did not ask for. An unknown Impersonate-* header is refused, too. As in Kubernetes, an empty user
or uid counts as absent: without any other value the request is served as the caller.

Both are removed from the headers, so that nothing after these stages sees them.
"""

from __future__ import annotations

import base64
import binascii

from rewound.actors.access.authentication.authenticate import HeaderFields, extra_key
from rewound.actors.access.impersonation import WantedIdentity
from rewound.actors.errors import BadRequest, Unauthorized
from rewound.actors.names import Names
from rewound.gateway.message import WEBSOCKET_PROTOCOLS, Request, wants_websocket, websocket_protocols
from rewound.gateway.pipeline.context import IMPERSONATION

_USER, _GROUP, _UID = b"impersonate-user", b"impersonate-group", b"impersonate-uid"
_EXTRA = b"impersonate-extra-"


def take_websocket_token(request: Request, prefix: bytes) -> bytes | None:
    """Remove the token of a WebSocket; return it as an Authorization header, unless the request has one."""
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
    if fields.repeated:  # shared by requests with the same head
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
        raise Unauthorized  # in an Authorization header, a space would end the token
    return b"Bearer " + token


def take_impersonated(request: Request) -> WantedIdentity | None:
    """Remove the Impersonate-* headers; return the identity that they ask for, None if they ask for none."""
    names = [name for name in request.headers if name.startswith(IMPERSONATION)]
    if not names:
        return None
    given = {name: _values(request, name) for name in names}
    for name in names:
        del request.headers[name]
    unknown = [name for name in names if name not in (_USER, _GROUP, _UID) and not name.startswith(_EXTRA)]
    if unknown:
        raise BadRequest(
            f"the header {unknown[0].decode('latin-1')} is not known: send Impersonate-User, Impersonate-Group, "
            "Impersonate-Uid or Impersonate-Extra-<name>"
        )
    user = given.get(_USER, [""])[0]
    if not user:
        others = [name for name in names if name != _USER and (name != _UID or given[name][0])]
        if not others:
            return None
        raise BadRequest(
            f"the header {others[0].decode('latin-1')} needs the header Impersonate-User with the name of a user: "
            "send it too, or leave both out"
        )
    extra: dict[str, list[str]] = {}
    for name in names:
        if name.startswith(_EXTRA):
            extra.setdefault(extra_key(name[len(_EXTRA) :]), []).extend(given[name])
    return WantedIdentity(
        user,
        tuple(given.get(_GROUP, ())),
        tuple((key, tuple(values)) for key, values in sorted(extra.items())),
        given.get(_UID, [""])[0],
    )


def _values(request: Request, name: bytes) -> list[str]:
    repeated = request.repeated.get(name) if request.repeated else None
    try:
        return [one.decode() for one in repeated or [request.headers[name]]]
    except UnicodeDecodeError:
        # Two different invalid values could be displayed and authorized as the same one.
        raise BadRequest(f"the header {name.decode('latin-1')} is not UTF-8: send it as UTF-8") from None

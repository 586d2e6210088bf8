"""What the event of a request that failed to authenticate shows: the kinds of its credentials, never their values."""

from __future__ import annotations

from actors.access.authorize import Attributes
from actors.identity import User
from gateway.message import Request
from gateway.pipeline.parameters import parse
from gateway.pipeline.route import find_route


def attempted_methods(request: Request) -> str:
    """The message of the event of a 401."""
    attempted = []
    scheme, _, credentials = request.headers.get(b"authorization", b"").strip().partition(b" ")
    if credentials and scheme.lower() in (b"basic", b"bearer"):
        attempted.append(scheme.lower().decode())
    if any(pair.startswith("access_token=") and len(pair) > 13 for pair in request.query.split("&")):
        attempted.append("access_token")
    if request.peer.certificate is not None:
        attempted.append("x509")
    if not attempted:
        return "Authentication failed, no credentials provided"
    return f"Authentication failed, attempted: {', '.join(attempted)}"


def unauthenticated(request: Request) -> Attributes:
    """Verb and object, of nobody."""
    try:
        watch = bool(request.query) and parse(request.query).boolean("watch")
    except Exception:  # what made the server refuse it may be its query
        watch = False
    route = find_route(request.method, request.path, watch=watch)
    return Attributes(
        User(""),
        route.verb,
        route.group,
        route.version,
        route.resource,
        route.subresource,
        route.namespace,
        route.name,
        route.path,
        route.is_resource,
    )

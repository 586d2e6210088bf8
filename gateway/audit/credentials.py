"""Which credentials a request that failed to authenticate had: their kinds, never their values."""

from __future__ import annotations

from gateway.requests.request import Request


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

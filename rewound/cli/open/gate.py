"""Decides which requests the listener of `rewound open` forwards, with the credentials of its user.

Every program of the machine can connect to the listener, and every site in the browser can make it send requests
there. So a request passes only with the cookie of a browser that used a link, under a name of this machine (a name that
an attacker's DNS resolves to loopback is another Host), from the page itself (`Sec-Fetch-Site`, `Origin`), and only if
it reads, or moves a replay.

    gate = Gate(port, "/debug/journal/#object=pods/default/web", trio.current_time, print)
    gate.new_link()               http://127.0.0.1:PORT/open/CODE: one use, within a minute
    gate.refuse(request)          the response of the listener itself; None: the request is forwarded
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from secrets import compare_digest, token_urlsafe
from typing import Final
from urllib.parse import unquote

from rewound.gateway.message import Request, Response
from rewound.gateway.pipeline.errors import plain_failure
from rewound.gateway.pipeline.route import PAGE_PATH, find_route
from rewound.gateway.wire.json import dump_line

LINK_SECONDS: Final = 60.0
LINK_PATH: Final = "/open/"
REPLAY_PATH: Final = "/debug/rewound/replay"
# Links that were used, each with its browser. A person has few browsers; the oldest one is signed out.
MAX_BROWSERS: Final = 8
MAX_BODY: Final = 16 * 1024  # a request to move a replay has some fifty bytes
_READS: Final = ("GET", "HEAD")

# For responses that are not the page's own: opened as a document, they run no script and load nothing.
PROTECTION: Final = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
]
_NEW_LINK: Final = "for a new one, press Enter in the terminal of `rewound open`, or run it again"
_NOT_SIGNED_IN: Final = (
    "this browser is not signed in here: use the link that `rewound open` printed; " + _NEW_LINK
)
_USED: Final = f"this link was used before, so whoever used it is signed out as well: {_NEW_LINK}"


@dataclass(frozen=True, slots=True)
class _Link:
    code: str
    key: str  # the value of the cookie of the browser that uses it
    expires: float


class Gate:
    def __init__(self, port: int, page: str, now: Callable[[], float], report: Callable[[str], None]) -> None:
        """`page`: where a link leads. `report` prints to the user's terminal."""
        self._page = page
        self._now = now
        self._report = report
        self._base = f"http://127.0.0.1:{port}"
        self._hosts = (f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode())
        # Browsers send the cookies of all ports of a host: each listener has a name of its own.
        self._cookie = f"rewound-open-{port}".encode()
        self._link: _Link | None = None  # the unused one
        self._used: list[_Link] = []

    def new_link(self) -> str:
        """Make a link for one browser; it replaces the last link if that is unused."""
        link = self._link = _Link(token_urlsafe(32), token_urlsafe(32), self._now() + LINK_SECONDS)
        return f"{self._base}{LINK_PATH}{link.code}"

    def refuse(self, request: Request) -> Response | None:
        headers = request.headers
        host = headers.get(b"host", b"")
        if host not in self._hosts:
            return _refusal(request, 403, f"this listener is {self._base}: use that address")
        if request.path.startswith(LINK_PATH):
            return self._enter(request)
        if self._browser_of(request) is None:
            return _refusal(request, 403, _NOT_SIGNED_IN)
        if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            return _refusal(request, 403, "Sec-Fetch-Site: only the page itself may send requests here")
        origin = headers.get(b"origin", b"" if request.method == "POST" else None)
        if origin is not None and origin != b"http://" + host:
            return _refusal(
                request, 403, f"Origin: only the page itself may send requests here ({self._base})"
            )
        if request.method == "GET" and request.path in ("/", PAGE_PATH.rstrip("/")):
            return Response(303, b"", b"text/plain", [(b"location", self._page.encode()), *_own_headers()])
        wrong = _wrong_request(request)
        return None if wrong is None else _refusal(request, *wrong)

    def _enter(self, request: Request) -> Response:
        if request.method != "GET":
            return _refusal(request, 405, "a link is opened by GET")
        if b"prefetch" in request.headers.get(b"sec-purpose", request.headers.get(b"purpose", b"")):
            return _refusal(request, 403, "a link is not loaded ahead: it has one use")
        code = request.path.removeprefix(LINK_PATH).encode()
        link = self._link
        if link is not None and compare_digest(code, link.code.encode()):
            self._link = None
            if self._now() > link.expires:
                return _refusal(request, 403, f"this link has expired: {_NEW_LINK}")
            self._used = [*self._used[-(MAX_BROWSERS - 1) :], link]
            return self._lead_to_page(link)
        for used in self._used:
            if compare_digest(code, used.code.encode()):
                return self._reuse(request, used)
        return _refusal(request, 403, f"there is no such link: {_NEW_LINK}")

    def _reuse(self, request: Request, link: _Link) -> Response:
        """Respond to a used link. Its browser may reload it; if another uses it, the link has leaked."""
        if self._browser_of(request) is link:
            return self._lead_to_page(link)
        self._used.remove(link)
        self._report(
            "the link was used a second time, by another browser or program: both are signed out. If that was not you, "
            "somebody saw the link"
        )
        return _refusal(request, 403, _USED)

    def _browser_of(self, request: Request) -> _Link | None:
        """The link that this browser used."""
        for pair in request.headers.get(b"cookie", b"").split(b";"):
            name, _, value = pair.strip().partition(b"=")
            if name == self._cookie:
                return next((one for one in self._used if compare_digest(value, one.key.encode())), None)
        return None

    def _lead_to_page(self, link: _Link) -> Response:
        """A document, not a redirect: after a click on a link elsewhere a redirect would still count as cross-site, and
        the browser would not send the cookie.
        """
        page = html.escape(self._page)
        body = f'<!doctype html><meta http-equiv="refresh" content="0; url={page}"><a href="{page}">The journal</a>'
        cookie = b"%b=%b; Path=/; HttpOnly; SameSite=Strict" % (self._cookie, link.key.encode())
        headers = [*_own_headers(sandbox=False), (b"set-cookie", cookie)]
        return Response(200, body.encode(), b"text/html; charset=utf-8", headers)


def _wrong_request(request: Request) -> tuple[int, str] | None:
    """Status and text for a request that is never forwarded, whatever its credentials; None if it may be."""
    headers, path = request.headers, request.path
    if b"upgrade" in headers or b"upgrade" in headers.get(b"connection", b"").lower():
        return 403, "no protocols but HTTP are forwarded"
    if not _is_plain(path):
        return 400, "the path has empty segments, dots or slashes in percent encoding"
    has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
    if request.method == "POST" and path == REPLAY_PATH:
        if b"transfer-encoding" in headers or b"content-length" not in headers:
            return 411, "Content-Length is missing"
        too_large = int(headers[b"content-length"]) > MAX_BODY
        return (413, f"the body has more than {MAX_BODY} bytes") if too_large else None
    if request.method not in _READS or has_body:
        return 405, f"only GET and HEAD are forwarded, without a body, and POST to {REPLAY_PATH}"
    if not _is_used_by_page(path):
        return (
            403,
            "only the page, the API and the state of a replay are forwarded, and nothing that pods or nodes serve",
        )
    return None


def _is_plain(path: str) -> bool:
    """Whether all servers read the path in the same way."""
    segments = path.removeprefix("/").removesuffix("/").split("/")
    decoded = [unquote(one) for one in segments]
    odd = any(one in ("", ".", "..") or any(c in "/\\" or c < " " for c in one) for one in decoded)
    return path.startswith("/") and not odd


def _is_used_by_page(path: str) -> bool:
    """Whether the page sends such requests. An `exec`, a `proxy` or a log is a GET too, and reaches a pod."""
    if path == REPLAY_PATH or path.startswith((PAGE_PATH, "/apis/rewound.cluster.io/")):
        return True
    route = find_route("GET", path)
    return route.is_resource and not route.forwarded and not route.has_extra_segments


def _own_headers(*, sandbox: bool = True) -> list[tuple[bytes, bytes]]:
    policy = PROTECTION[0] if sandbox else (b"content-security-policy", b"default-src 'none'")
    return [policy, *PROTECTION[1:], (b"cache-control", b"no-store")]


def _refusal(request: Request, status: int, message: str) -> Response:
    """A Status for the page, text for people."""
    if b"application/json" in request.headers.get(b"accept", b""):
        return Response(status, dump_line(plain_failure(status, message).document()), headers=_own_headers())
    return Response(status, f"{message}\n".encode(), b"text/plain; charset=utf-8", _own_headers())

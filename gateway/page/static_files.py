"""The files of the page: HTML, scripts and a style sheet, read once from the package and sent as they are.

They hold no data, so everybody who may connect gets them: who opens the page has to load it before he can sign in. A
path is looked up among the names of the files, so no path leads anywhere else.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from gateway.message import Response
from gateway.pipeline.context import RequestContext
from gateway.pipeline.errors import MethodNotAllowed, NoSuchPath
from gateway.pipeline.route import PAGE_PATH

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS: Final = [
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # The browser asks each time whether a file has changed: after an update, no old script meets a new page.
    (b"cache-control", b"no-cache"),
]


class _File(NamedTuple):
    body: bytes
    content_type: bytes
    tag: bytes


@cache
def files() -> dict[str, _File]:
    """By the part of the path after the folder; the page itself has an empty one."""
    found = {}
    for path in sorted(_FOLDER.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode()
            name = "" if path.name == "index.html" else path.name
            found[name] = _File(body, _TYPES[path.suffix], tag)
    return found


def serve(context: RequestContext) -> Response:
    """A file, or a redirect to the page. NoSuchPath."""
    if context.request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(("GET", "HEAD"))
    path = context.route.path
    if path == PAGE_PATH.rstrip("/"):
        return Response(308, b"", b"text/plain", [(b"location", PAGE_PATH.encode()), *_HEADERS])
    file = files().get(path.removeprefix(PAGE_PATH))
    if file is None:
        raise NoSuchPath
    headers = [(b"etag", file.tag), *_HEADERS]
    if file.tag in context.request.headers.get(b"if-none-match", b""):
        return Response(304, b"", file.content_type, headers)
    return Response(200, file.body, file.content_type, headers)

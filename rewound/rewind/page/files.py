"""Files of a web page: HTML, scripts and style sheets, read once from the package and sent as they are.

They hold no data, so every client that can connect gets them: a page must be loaded before its user can sign in. A name
is looked up among those of the folder, so no path leads anywhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from rewound.gateway.message import Response

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
HEADERS: Final = [
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # The browser revalidates files each time: after an update, no old script meets a new page.
    (b"cache-control", b"no-cache"),
]


class _File(NamedTuple):
    body: bytes
    content_type: bytes
    tag: bytes


@cache
def _files(folder: Path) -> dict[str, _File]:
    """The files by the part of the path after the folder, which is empty for the page itself."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode()
            name = "" if path.name == "index.html" else path.name
            found[name] = _File(body, _TYPES[path.suffix], tag)
    return found


def respond_file(folder: Path, name: str, headers: Mapping[bytes, bytes]) -> Response | None:
    """Respond with the file of a name, the page for an empty one; None if there is none."""
    file = _files(folder).get(name)
    if file is None:
        return None
    sent = [(b"etag", file.tag), *HEADERS]
    if file.tag in headers.get(b"if-none-match", b""):
        return Response(304, b"", file.content_type, sent)
    return Response(200, file.body, file.content_type, sent)


def lead_to(path: str) -> Response:
    return Response(308, b"", b"text/plain", [(b"location", path.encode()), *HEADERS])

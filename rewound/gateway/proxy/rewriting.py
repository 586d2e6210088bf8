"""Rewrites links and redirects of pages behind pods/proxy, services/proxy and nodes/proxy to lead through the proxy.

A backend does not know the path under which clients see it. So the proxy sends that path in X-Forwarded-Uri, and puts
it before the path of redirects and of links in HTML that are absolute and lead to the same host.

`HtmlLinks` rewrites the links of a page as it passes: the attributes of start tags that are URLs. The page is never
held as a whole. What arrives is copied up to the last complete tag; the rest waits for more, up to a limit. Comments,
and the content of elements that have no tags inside (script, style, ...), are copied unchanged.
"""

from __future__ import annotations

import html
import posixpath
import re
import zlib
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from rewound.actors.errors import RequestError
from rewound.gateway.message import Response
from rewound.gateway.outgoing.response import Field, Head
from rewound.gateway.pipeline.errors import BackendFailed, BackendUnavailable
from rewound.gateway.proxy.forward import Adapter, Transform
from rewound.gateway.proxy.upstream import Upstream


class PageAdapter(Adapter):
    cors = False

    def __init__(self, prefix: str, path: str, backend: str, host: str) -> None:
        """`prefix` is the proxy's path, `path` the backend's; `backend` and `host` are names of the backend."""
        self._prefix = prefix
        self._path = path
        self._hosts = (backend, host)

    def request_fields(self) -> list[Field]:
        shown = posixpath.normpath(f"{self._prefix}/{self._path}")
        if self._path.endswith("/"):
            shown += "/"
        return [(b"x-forwarded-uri", shown.encode("latin-1", "replace"))]

    def unreachable(self, why: str, *, upgrading: bool) -> RequestError:
        if upgrading:
            return BackendFailed(f"error dialing backend: {why}")
        return BackendUnavailable(f"error trying to reach service: {why}")

    async def response(self, head: Head, upstream: Upstream) -> tuple[Response, Transform | None]:
        response, _ = await super().response(head, upstream)
        if location := head.get(b"location"):
            moved = self.rewritten(location.decode("latin-1")).encode("latin-1")
            response.headers = [(n, moved if n == b"location" else v) for n, v in response.headers]
            return response, None
        if head.get(b"content-type").partition(b";")[0].strip().lower() != b"text/html":
            return response, None
        transform = recoded(HtmlLinks(self.rewritten), head.get(b"content-encoding").lower())
        if transform is not None:
            response.headers = [one for one in response.headers if one[0] != b"content-length"]
        return response, transform

    def rewritten(self, link: str) -> str:
        """A link that leads through the proxy; unchanged if it is relative or leads elsewhere."""
        try:
            parts = urlsplit(link)
        except ValueError:
            return link
        if (parts.netloc and parts.netloc not in self._hosts) or not parts.path.startswith("/"):
            return link
        if parts.netloc != self._hosts[1]:
            parts = parts._replace(scheme="", netloc="")
        if parts.path.startswith(self._prefix):
            return parts.geturl()
        path = posixpath.normpath(self._prefix + parts.path)
        return _with_path(parts, path + "/" if parts.path.endswith("/") else path)


def _with_path(parts: SplitResult, path: str) -> str:
    return parts._replace(path=path).geturl()


# A longer tag is passed on unchanged.
_MAX_TAG: Final = 64 * 1024
# How much of a compressed page is unpacked at a time: a small part may grow a thousandfold.
_UNPACKED: Final = 64 * 1024
_ATTRIBUTES: Final = {
    b"a": (b"href",),
    b"applet": (b"codebase",),
    b"area": (b"href",),
    b"audio": (b"src",),
    b"base": (b"href",),
    b"blockquote": (b"cite",),
    b"body": (b"background",),
    b"button": (b"formaction",),
    b"command": (b"icon",),
    b"del": (b"cite",),
    b"embed": (b"src",),
    b"form": (b"action",),
    b"frame": (b"longdesc", b"src"),
    b"head": (b"profile",),
    b"html": (b"manifest",),
    b"iframe": (b"longdesc", b"src"),
    b"img": (b"longdesc", b"src", b"usemap"),
    b"input": (b"src", b"usemap", b"formaction"),
    b"ins": (b"cite",),
    b"link": (b"href",),
    b"object": (b"classid", b"codebase", b"data", b"usemap"),
    b"q": (b"cite",),
    b"script": (b"src",),
    b"source": (b"src",),
    b"video": (b"poster", b"src"),
}
_RAW: Final = frozenset(
    (b"script", b"style", b"textarea", b"title", b"iframe", b"noembed", b"noframes", b"xmp")
)
_START: Final = re.compile(rb"<(?:!--|[a-zA-Z])")
_TAG: Final = re.compile(rb"<([a-zA-Z][^\s/>]*)((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE: Final = re.compile(rb"([^\s=/>\"']+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"']+))")


class HtmlLinks:
    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite
        self._waiting = b""
        self._until: re.Pattern[bytes] | None = None  # end of an element that has no tags inside

    def feed(self, part: bytes) -> bytes:
        data, self._waiting = self._waiting + part, b""
        done: list[bytes] = []
        at = 0
        while at < len(data):
            at = self._step(data, at, done)
        return b"".join(done)

    def finish(self) -> bytes:
        rest, self._waiting = self._waiting, b""
        return rest

    def _step(self, data: bytes, at: int, done: list[bytes]) -> int:
        """Copy up to the end of the next tag, and return where that is. An incomplete tag waits."""
        if self._until is not None:
            return self._skip(data, at, done)
        start = _START.search(data, at)
        if start is None:
            keep = data.rfind(b"<", max(at, len(data) - 3))  # maybe the start of a tag
            end = len(data) if keep < 0 else keep
            done.append(data[at:end])
            return end if keep < 0 else self._wait(data, end, done)
        done.append(data[at : start.start()])
        if start.group() == b"<!--":
            self._until = re.compile(rb"-->")
            done.append(start.group())
            return start.end()
        tag = _TAG.match(data, start.start())
        if tag is None:
            return self._wait(data, start.start(), done)
        done.append(self._tag(tag))
        return tag.end()

    def _wait(self, data: bytes, at: int, done: list[bytes]) -> int:
        """Keep the rest until more arrives, unless it is too long."""
        if len(data) - at > _MAX_TAG:
            done.append(data[at:])
        else:
            self._waiting = data[at:]
        return len(data)

    def _skip(self, data: bytes, at: int, done: list[bytes]) -> int:
        assert self._until is not None
        end = self._until.search(data, at)
        if end is not None:
            self._until = None
            stop = end.end() if end.group() == b"-->" else end.start()
            done.append(data[at:stop])
            return stop
        keep = max(at, len(data) - 16)  # maybe the start of the end
        done.append(data[at:keep])
        return self._wait(data, keep, done)

    def _tag(self, tag: re.Match[bytes]) -> bytes:
        name, attributes = tag[1].lower(), tag[2]
        if name in _RAW and not attributes.endswith(b"/"):
            self._until = re.compile(rb"</" + name, re.IGNORECASE)
        wanted = _ATTRIBUTES.get(name)
        if wanted is None:
            return tag[0]
        changed = _ATTRIBUTE.sub(lambda one: self._attribute(one, wanted), attributes)
        return b"<%b%b>" % (tag[1], changed)

    def _attribute(self, found: re.Match[bytes], wanted: tuple[bytes, ...]) -> bytes:
        if found[1].lower() not in wanted:
            return found[0]
        value = next(one for one in found.groups()[1:] if one is not None).decode("utf-8", "surrogateescape")
        link = html.unescape(value)
        rewritten = self._rewrite(link)
        if rewritten == link:
            return found[0]
        shown = html.escape(rewritten).encode("utf-8", "surrogateescape")
        return b'%b="%b"' % (found[1], shown)


class Recoded:
    """Unpacks a compressed body, transforms it, and compresses it again."""

    def __init__(self, links: HtmlLinks, bits: int) -> None:
        self._links = links
        self._unpack: Any = zlib.decompressobj(bits)
        self._pack: Any = zlib.compressobj(wbits=bits)

    def feed(self, part: bytes) -> bytes:
        made: list[bytes] = []
        while part and not self._unpack.eof:
            plain = self._unpack.decompress(part, _UNPACKED)
            part = self._unpack.unconsumed_tail
            made.append(self._pack.compress(self._links.feed(plain)))
        return b"".join(made)

    def finish(self) -> bytes:
        plain = self._links.feed(self._unpack.flush()) + self._links.finish()
        return bytes(self._pack.compress(plain) + self._pack.flush())


def recoded(links: HtmlLinks, coding: bytes) -> HtmlLinks | Recoded | None:
    """The transform of a page with this Content-Encoding; None if it is passed on unchanged."""
    if not coding or coding == b"identity":
        return links
    if coding == b"gzip":
        return Recoded(links, 31)
    return Recoded(links, -15) if coding == b"deflate" else None

"""What a page behind pods/proxy, services/proxy and nodes/proxy gets: links and redirects that lead through the proxy.

A backend knows nothing of the path under which it is seen. So the proxy tells it in X-Forwarded-Uri, and puts its own
path before the path of redirects and of links in HTML, if they are absolute and lead to the same host.
"""

from __future__ import annotations

import posixpath
from urllib.parse import SplitResult, urlsplit

from actors.errors import RequestError
from gateway.message import Response
from gateway.outgoing.response import Field, Head
from gateway.pipeline.errors import BackendFailed, BackendUnavailable
from gateway.proxy.forward import Adapter, Transform
from gateway.proxy.html import HtmlLinks, recoded
from gateway.proxy.upstream import Upstream


class PageAdapter(Adapter):
    cors = False

    def __init__(self, prefix: str, path: str, backend: str, host: str) -> None:
        """`prefix` is the proxy's path, `path` the backend's; `backend` and `host` are by whom the latter is named."""
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
        """A link that leads through the proxy; as it is if it is relative, or leads elsewhere."""
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

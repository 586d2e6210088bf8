"""Connections to one server for requests that are read whole, with the HTTP client of the standard library.

It starts in a tenth of the time that httpx takes to import, which a command of a second notices. Servers behind a
proxy, and streams (`client.streaming`), have httpx: it knows all kinds of proxies.
"""

from __future__ import annotations

import json
import select
import ssl
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

_HTTPS_PORT = 443
_GZIP = zlib.MAX_WBITS | 16


@dataclass(frozen=True, slots=True)
class Response:
    status_code: int
    content: bytes
    reason_phrase: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    def values(self, name: str) -> list[str]:
        """The values of a header, whose name is in lower case."""
        return [value for key, value in self.headers if key.lower() == name]

    def json(self) -> Any:
        """Raises ValueError if it is not JSON."""
        return json.loads(self.content)


class Connections:
    """Idle connections are used again, unless the server has closed them. Threads may share it."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str, seconds: float) -> None:
        self._parts = urlsplit(server)
        self._tls, self._server_name, self._seconds = tls, server_name, seconds
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []

    def request(
        self, method: str, target: str, body: bytes | None, headers: Sequence[tuple[bytes, bytes]]
    ) -> Response:
        """Send a request for a path with its query. Raises OSError or http.client.HTTPException."""
        connection = self._connection()
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in (*headers, (b"accept-encoding", b"gzip")):
                connection.putheader(name.decode(), value)
            if body is not None or method not in ("GET", "DELETE"):
                connection.putheader("content-length", str(len(body or b"")))
            connection.endheaders(body)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if not response.will_close:
            with self._lock:
                self._idle.append(connection)
        if response.getheader("content-encoding") == "gzip":
            content = zlib.decompress(content, _GZIP)
        return Response(response.status, content, response.reason, tuple(response.getheaders()))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

    def _connection(self) -> HTTPConnection:
        while True:
            with self._lock:
                found = self._idle.pop() if self._idle else None
            if found is None:
                return self._new()
            # What can be read between two requests is the end of the connection.
            if found.sock is not None and not select.select([found.sock], [], [], 0)[0]:
                return found
            found.close()

    def _new(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is None:
            return HTTPConnection(host, port, timeout=self._seconds)
        return _Tls(host, port, self._tls, self._server_name or host, self._seconds)


class _Tls(HTTPConnection):
    """A connection over TLS whose certificate may be for another name than that of the server."""

    default_port = _HTTPS_PORT

    def __init__(
        self, host: str, port: int | None, tls: ssl.SSLContext, server_name: str, seconds: float
    ) -> None:
        super().__init__(host, port, timeout=seconds)
        self._tls, self._server_name = tls, server_name

    def connect(self) -> None:
        super().connect()
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._server_name)

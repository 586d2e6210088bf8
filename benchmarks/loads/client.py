"""Single requests around the measured work: create a namespace, page through a list, read the version.

Simple and slow; the harness measures none of these requests.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from types import TracebackType
from typing import Any

from benchmarks.servers.endpoint import Endpoint

TIMEOUT = 120.0  # seconds; deleting a large collection takes the reference this long


class Refused(Exception):
    """The server responded with an error that the harness cannot continue after."""


class Client:
    def __init__(self, endpoint: Endpoint, timeout: float = TIMEOUT) -> None:
        self._token = endpoint.token
        self._connection = _connection(endpoint, timeout)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "json",
        accept: str = "application/json",
    ) -> tuple[int, Any]:
        headers = {"Accept": accept}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        content = None
        if body is not None:
            headers["Content-Type"] = f"application/{kind}"
            content = json.dumps(body)
        self._connection.request(method, path, content, headers)
        response = self._connection.getresponse()
        return response.status, _decode(response.read())

    def expect(self, method: str, path: str, body: Any = None) -> Any:
        status, response = self.call(method, path, body)
        if status >= 300:
            raise Refused(f"{method} {path}: {status} {str(response)[:300]}")
        return response

    def close(self) -> None:
        self._connection.close()

    def connect(self) -> None:
        self._connection.connect()

    def abort(self) -> None:
        """End the connection while another thread reads from it; `close` would wait for that thread."""
        if (sock := self._connection.sock) is not None:
            sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connection(endpoint: Endpoint, timeout: float) -> http.client.HTTPConnection:
    if not endpoint.tls:
        return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback only, see benchmarks.servers.endpoint
    return http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=timeout, context=context)


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")

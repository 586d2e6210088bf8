"""Single calls around the measured work: make a namespace, walk a list, ask for the version.

Slow and simple on purpose; nothing it does is measured.
"""

from __future__ import annotations

import http.client
import json
import ssl
from types import TracebackType
from typing import Any

from benchmarks.servers.target import Target

TIMEOUT = 120.0  # deleting a large collection may take a reference this long


class Refused(Exception):
    """The server answered, but not what the harness can go on with."""


class Client:
    def __init__(self, target: Target, timeout: float = TIMEOUT) -> None:
        self._token = target.token
        self._connection = _connection(target, timeout)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body)
        self._connection.request(method, path, content, headers)
        answer = self._connection.getresponse()
        return answer.status, _decode(answer.read())

    def expect(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.call(method, path, body)
        if status >= 300:
            raise Refused(f"{method} {path}: {status} {str(answer)[:300]}")
        return answer

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connection(target: Target, timeout: float) -> http.client.HTTPConnection:
    if not target.tls:
        return http.client.HTTPConnection(target.host, target.port, timeout=timeout)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback only, see benchmarks.servers.target
    return http.client.HTTPSConnection(target.host, target.port, timeout=timeout, context=context)


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")

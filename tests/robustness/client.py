"""One keep-alive connection to the server, and the ways in which a client misbehaves.

A request that ends without a response raises `ConnectionBroken` (it may have taken effect or not); `ServerGone`
means that nothing listens on the port. A response that does not come in time fails the test.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
from collections.abc import Callable

from tests.robustness.cluster import LOOPBACK, TIMEOUT, TOKEN
from tests.robustness.objects import Document

_HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ConnectionBroken(Exception):
    """The connection ended before the response was complete."""


class ServerGone(Exception):
    """Nothing listens on the port."""


class Client:
    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: Document | None = None, sent: Callable[[], None] = lambda: None
    ) -> tuple[int, Document]:
        """Send a request and wait for the response. `sent` is called in between."""
        connection = self._connected()
        try:
            connection.request(method, path, _encoded(body), _HEADERS)
            sent()
            response = connection.getresponse()
            content = response.read()
        except TimeoutError:
            raise AssertionError(f"no response to {method} {path} in {TIMEOUT:.0f} s") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ConnectionBroken from error
        return response.status, json.loads(content)

    def send_and_disconnect(self, method: str, path: str, body: Document | None) -> None:
        """Send a request and disconnect without waiting for the response."""
        connection = self._connected()
        try:
            connection.request(method, path, _encoded(body), _HEADERS)
        except OSError as error:
            raise ConnectionBroken from error
        finally:
            self.close()

    def send_partially(self, method: str, path: str, body: Document, rng: random.Random) -> None:
        """Send a part of a request and disconnect: with FIN or with RST."""
        content = _encoded(body) or b""
        head = "".join(f"{name}: {value}\r\n" for name, value in _HEADERS.items())
        length = f"Content-Length: {len(content)}\r\n"
        whole = f"{method} {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\n{head}{length}\r\n".encode() + content
        connection = self._connected()
        try:
            sock = connection.sock
            if rng.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            sock.sendall(whole[: rng.randrange(1, len(whole))])
        except OSError as error:
            raise ConnectionBroken from error
        finally:
            self.close()

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None or self._connection.sock is None:  # the server may have closed it
            connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=TIMEOUT)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                raise ServerGone from error
            self._connection = connection
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _encoded(body: Document | None) -> bytes | None:
    return None if body is None else json.dumps(body).encode()

"""One keep-alive connection to the server, and the ways in which a client misbehaves.

Whatever breaks a request is `Broken` (nobody knows what became of it); a server that cannot be reached any more
is `Gone`. A server that does not answer in time is neither: it fails the test.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
from collections.abc import Callable

from tests.robustness.cluster import LOOPBACK, PATIENCE, TOKEN
from tests.robustness.objects import Document

_HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Broken(Exception):
    """The connection ended before the answer did."""


class Gone(Exception):
    """Nobody listens any more."""


class Client:
    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: Document | None = None, sent: Callable[[], None] = lambda: None
    ) -> tuple[int, Document]:
        """Ask and wait for the answer. `sent` is called in between."""
        connection = self._connected()
        try:
            connection.request(method, path, _encoded(body), _HEADERS)
            sent()
            answer = connection.getresponse()
            content = answer.read()
        except TimeoutError:
            raise AssertionError(f"no answer to {method} {path} in {PATIENCE:.0f} s") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Broken from error
        return answer.status, json.loads(content)

    def leave(self, method: str, path: str, body: Document | None) -> None:
        """Ask and go without waiting for the answer."""
        connection = self._connected()
        try:
            connection.request(method, path, _encoded(body), _HEADERS)
        except OSError as error:
            raise Broken from error
        finally:
            self.close()

    def cut_off(self, method: str, path: str, body: Document, chance: random.Random) -> None:
        """Send a part of a request, never all of it, and go: with a goodbye or without."""
        content = _encoded(body) or b""
        head = "".join(f"{name}: {value}\r\n" for name, value in _HEADERS.items())
        length = f"Content-Length: {len(content)}\r\n"
        whole = f"{method} {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\n{head}{length}\r\n".encode() + content
        connection = self._connected()
        try:
            sock = connection.sock
            if chance.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            sock.sendall(whole[: chance.randrange(1, len(whole))])
        except OSError as error:
            raise Broken from error
        finally:
            self.close()

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None or self._connection.sock is None:  # the server may have said goodbye
            connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=PATIENCE)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                raise Gone from error
            self._connection = connection
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _encoded(body: Document | None) -> bytes | None:
    return None if body is None else json.dumps(body).encode()

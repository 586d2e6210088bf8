"""Requests over HTTPS that are sent and received whole: a lean HTTP/1.1 client for webhooks (decision 0022).

Connections are pooled. If the peer closes one during a request, before a byte of the response has arrived, the
request is sent once more over a new connection. Callers handle redirects and limit the number of calls. A call that
fails, takes too long or is cancelled closes its connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from math import inf
from typing import Final

import trio

from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.actors.access.remote.slots import Slots
from rewound.gateway.outgoing.connections import Address, Connections, Endpoint, InvalidUrl, parse_url
from rewound.gateway.outgoing.response import Disconnected, Response, ResponseReader
from rewound.gateway.outgoing.streams import ByteStream

MAX_LARGE_BODIES: Final = 8  # read at the same time
# At the same time: a handshake takes a millisecond of the event loop.
MAX_HANDSHAKES: Final = 8
MAX_HEADS: Final = 64  # cached in encoded form: one for each URL, until a token changes


class HttpsClient:
    def __init__(
        self, context: ssl.SSLContext, *, server_name: str = "", proxy_url: str = "", max_idle: int
    ) -> None:
        """`server_name` in the certificate, if it is not the host of the URL; `max_idle` pooled connections."""
        self._context = context
        self._server_name = server_name
        self._connections = Connections(max_idle=max_idle, proxy_url=proxy_url)
        self._handshakes = trio.Semaphore(MAX_HANDSHAKES)
        self._deadlines = Deadlines()
        self._large_bodies = Slots(MAX_LARGE_BODIES, self._deadlines)
        self._heads: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[bytes, Endpoint]] = {}

    async def request(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        largest: int,
        deadline: float = inf,
        method: str = "POST",
    ) -> Response:
        """The response; with its body only if it is a success. `deadline` is compared with trio.current_time().

        Raises InvalidUrl, OSError (including ssl.SSLError), ResponseError, ResponseTooLarge for a body of more than
        `largest` bytes, TooSlow.
        """
        head, endpoint = self._head(method, url, headers)
        request = b"%b%d\r\n\r\n%b" % (head, len(body), body)
        stream = self._connections.take(endpoint)
        if stream is not None:
            self._deadlines.add(stream, deadline)
            try:
                return await self._exchange(endpoint, stream, request, largest, deadline)
            except Disconnected as error:
                if error.began:
                    raise
            finally:
                self._deadlines.remove(stream)
        with trio.CancelScope(deadline=deadline):
            async with self._handshakes:
                stream = await self._connections.connect(endpoint)
            return await self._exchange(endpoint, stream, request, largest, deadline)
        raise TooSlow

    def close(self) -> None:
        """Close idle connections, and pool none from now on."""
        self._connections.close()

    def _head(self, method: str, url: str, headers: Mapping[str, str]) -> tuple[bytes, Endpoint]:
        """The encoded head of a request up to its Content-Length, and the endpoint."""
        key = method, url, tuple(headers.items())
        found = self._heads.get(key)
        if found is None:
            address = parse_url(url)
            if not address.tls:
                raise InvalidUrl(url)
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            endpoint = Endpoint(address.host, address.port, self._context, self._server_name)
            found = self._heads[key] = _head(method, address, headers), endpoint
        return found

    async def _exchange(
        self, endpoint: Endpoint, stream: ByteStream, request: bytes, largest: int, deadline: float
    ) -> Response:
        response: Response | None = None
        reader = ResponseReader(stream, largest, self._large_bodies, deadline)
        try:
            try:
                await stream.send(request)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the peer may have sent a response that says why
            response = await reader.read()
            return response
        finally:
            reader.release()
            if response is not None and response.reusable:
                self._connections.keep(endpoint, stream)
            else:
                stream.close()


def _head(method: str, address: Address, headers: Mapping[str, str]) -> bytes:
    fields = {"host": address.authority, **headers}
    if address.authorization:
        fields.setdefault("authorization", address.authorization)
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {address.path} HTTP/1.1\r\n{lines}content-length: ".encode("latin-1")

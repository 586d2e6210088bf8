"""The client for trio whose requests share few connections, where the server offers HTTP/2.

Watches share one connection and all other requests another, so that a long list does not delay events on its way; of
each there are more when the server allows no more streams on one. Everything else is inherited from `StreamingSession`:
credentials, trusted CA, proxy, limits, errors. Its HTTP/1.1 is used where the server does not offer HTTP/2 in the TLS
handshake, without TLS, through proxies other than those of HTTP, and with DISABLE_HTTP2 in the environment, which
clients of Kubernetes read too.

A new request has the credential of that moment. With another client certificate it gets another connection; that of
before is closed when nobody has used it for a while.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.client import responses
from math import inf
from typing import Any, Final, cast
from urllib.parse import quote, urlencode, urlsplit

import trio

from rewound.client.content_coding import GZIP, IDENTITY, WrongCoding, decoded
from rewound.client.credentials import Credential, KeyPair
from rewound.client.errors import ClientError
from rewound.client.http2_connection import (
    Connection,
    Headers,
    NotProcessed,
    Stream,
    StreamFailed,
    StreamSilent,
)
from rewound.client.streaming import CONNECT_SECONDS, Streamed, StreamingSession
from rewound.client.target import Target, client_context, environment_proxy, is_local

# Seconds after which a server that did not offer HTTP/2 is asked again; a watch lasts as long.
HTTP1_SECONDS: Final = 300.0
ATTEMPTS: Final = 3  # of a request that the server did not process
DISABLE: Final = "DISABLE_HTTP2"
NOTHING_TAKEN: Final = "the server takes no request on its HTTP/2 connections"
_OFFERED: Final = ["h2", "http/1.1"]
_SAFE: Final = "/:@!$&'()*+,;=~%-._?"  # in a path
_Role = tuple[KeyPair | None, bool]  # the client certificate, and whether the requests are watches


@asynccontextmanager
async def http2_session(target: Target, agent: str = "rewound") -> AsyncIterator[Http2Session]:
    """A session whose connections end with the block."""
    async with trio.open_nursery() as nursery:
        session = Http2Session(target, nursery, agent)
        try:
            yield session
        finally:
            with trio.move_on_after(2, shield=True):
                await session.aclose()
            nursery.cancel_scope.cancel()


class Http2Session(StreamingSession):
    def __init__(
        self,
        target: Target,
        nursery: trio.Nursery,
        agent: str = "rewound",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`nursery` runs the connections; `aclose` ends them."""
        super().__init__(target, agent)
        self._nursery = nursery
        self._shared: dict[_Role, list[Connection]] = {}
        self._attempts: dict[_Role, _Attempt] = {}
        self._offering: tuple[KeyPair | None, ssl.SSLContext] | None = None
        proxy = target.proxy_url or environment_proxy(target.server)
        tunnelled = not proxy or urlsplit(proxy).scheme in ("http", "https")
        shared = target.server.startswith("https:") and tunnelled and not environment.get(DISABLE)
        self._http1_until = -inf if shared else inf
        self._authority = urlsplit(target.server).netloc.encode()
        self._coding = (IDENTITY if is_local(target.server) else GZIP).encode()

    def statistics(self) -> dict[str, int]:
        """Open HTTP/2 connections and streams; those of HTTP/1.1 are not counted."""
        found = [one for several in self._shared.values() for one in several if one.failure is None]
        streams = sum(one.streams for one in found)
        return {**super().statistics(), "connections": len(found), "streams": streams}

    async def aclose(self) -> None:
        for several in self._shared.values():
            for one in several:
                one.close()
        await super().aclose()

    @asynccontextmanager
    async def _exchange(
        self,
        credential: Credential,
        path: str,
        query: dict[str, str],
        seconds: float,
        body: bytes | None,
        headers: Headers,
    ) -> AsyncIterator[Streamed]:
        sent = self._head(path, query, body, headers)
        try:
            stream = await self._begin((credential.pair, "watch" in query), sent, body, seconds)
            if stream is not None:
                with stream:
                    yield _Response(stream, seconds)
        except StreamSilent as error:
            raise self.silent(seconds) from error
        except StreamFailed as error:
            raise self.connection_error(error) from error
        except WrongCoding as error:
            raise self.unreadable(error) from error
        if stream is None:
            async with super()._exchange(credential, path, query, seconds, body, headers) as response:
                yield response

    def _head(self, path: str, query: dict[str, str], body: bytes | None, headers: Headers) -> Headers:
        target = quote(urlsplit(self.target.server).path.rstrip("/") + path, safe=_SAFE)
        if query:
            target += ("&" if "?" in target else "?") + urlencode(query)
        found = [
            (b":method", b"GET" if body is None else b"POST"),
            (b":scheme", b"https"),
            (b":authority", self._authority),
            (b":path", target.encode()),
            *headers,
            (b"accept-encoding", self._coding),
        ]
        if body is not None:
            found.append((b"content-length", b"%d" % len(body)))
        return found

    async def _begin(self, role: _Role, head: Headers, body: bytes | None, seconds: float) -> Stream | None:
        """Send a request, and return its stream when the response begins; None: the server has HTTP/1.1 only.

        It is sent again if the server did not process it, because it was about to leave.
        """
        for attempt in range(1, ATTEMPTS + 1):
            connection = await self._connection(role)
            if connection is None:
                return None
            stream = connection.open(head, body=body is not None)
            try:
                if body is not None:
                    await stream.send(body, seconds)
                await stream.read_head(seconds)
            except NotProcessed:
                stream.close()
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                stream.close()
                raise
            else:
                return stream
        raise AssertionError

    # Connections.

    async def _connection(self, role: _Role) -> Connection | None:
        """One with room for a stream; None: the server has HTTP/1.1 only. Raises ClientError."""
        useless = 0
        while trio.current_time() >= self._http1_until:
            for one in self._shared.get(role, ()):
                if one.has_room:
                    return one
            attempt = self._attempts.get(role)
            if attempt is None:
                # In a task of its own: others wait for it too, and this one may be cancelled.
                attempt = self._attempts[role] = _Attempt()
                self._nursery.start_soon(self._try_to_connect, role, attempt)
            await attempt.ended.wait()
            if attempt.failure is not None:
                raise type(attempt.failure)(*attempt.failure.args)
            # Others may have taken its room; but a server may also take no request on any connection.
            useless += attempt.connection is not None and attempt.connection.takes_nothing
            if useless == ATTEMPTS:
                raise self.connection_error(StreamFailed(NOTHING_TAKEN))
        return None

    async def _try_to_connect(self, role: _Role, attempt: _Attempt) -> None:
        try:
            attempt.connection = await self._connect(role)
        except ClientError as error:
            attempt.failure = error
        finally:
            del self._attempts[role]
            attempt.ended.set()

    async def _connect(self, role: _Role) -> Connection | None:
        stream = cast("trio.SSLStream[Any]", await self.connect(self._context_offering(role[0])))
        if stream.selected_alpn_protocol() != "h2":
            await trio.aclose_forcefully(stream)
            self._http1_until = trio.current_time() + HTTP1_SECONDS
            return None
        connection = Connection(stream)
        self._nursery.start_soon(connection.run)
        with trio.move_on_after(CONNECT_SECONDS):
            await connection.ready.wait()
        if connection.failure:
            raise self.connection_error(StreamFailed(connection.failure))
        if not connection.ready.is_set():
            connection.close()
            raise self.silent(CONNECT_SECONDS)
        for known, several in list(self._shared.items()):
            several[:] = [one for one in several if one.failure is None]
            if not several:
                del self._shared[known]
        self._shared.setdefault(role, []).append(connection)
        return connection

    def _context_offering(self, pair: KeyPair | None) -> ssl.SSLContext:
        """Not that of `context`, to which httpx says what it offers."""
        if self._offering is None or self._offering[0] != pair:
            target = self.target
            context = client_context(target.authority, pair, target.configured_in, insecure=target.insecure)
            context.set_alpn_protocols(_OFFERED)
            self._offering = pair, context  # those of certificates that have expired are not kept
        return self._offering[1]


class _Attempt:
    """A connection that is being opened."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.connection: Connection | None = None  # None: the server has HTTP/1.1 only, or `failure`
        self.failure: ClientError | None = None


class _Headers:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def multi_items(self) -> list[tuple[str, str]]:
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value, *_ in self._stream.headers]


class _Response:
    """A response in the form of httpx."""

    def __init__(self, stream: Stream, seconds: float) -> None:
        self._stream = stream
        self._seconds = seconds
        self.headers = _Headers(stream)

    @property
    def status_code(self) -> int:
        return self._stream.status

    @property
    def reason_phrase(self) -> str:
        return responses.get(self._stream.status, "")

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        return decoded(self.headers, _Parts(self._stream, self._seconds))


class _Parts(AsyncIterator[bytes]):
    """No generator, which must not be collected half-read."""

    def __init__(self, stream: Stream, seconds: float) -> None:
        self._stream = stream
        self._seconds = seconds

    async def __anext__(self) -> bytes:
        part = await self._stream.read(self._seconds)
        if not part:
            raise StopAsyncIteration
        return part

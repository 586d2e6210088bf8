"""The client for trio: many requests and watches at the same time, with the credentials of one target.

It sends the same requests as `Session` and raises the same errors, over HTTP/1.1: each watch has its own connection;
idle connections are pooled. `http2` has the one whose requests share connections.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import httpx
import orjson
import trio

from rewound.client.connections import Response
from rewound.client.content_coding import GZIP, IDENTITY, WrongCoding, decoded
from rewound.client.credentials import Credential, FixedCredential, KeyPair
from rewound.client.dialing import UnusableProxy, dial
from rewound.client.errors import ClientError, NoDocument, StatusError
from rewound.client.session import Document, Session
from rewound.client.target import Target, client_context, environment_proxy, is_local

CONNECT_SECONDS = 30.0
READ_SECONDS = 60.0
MOST_PATIENT = 60.0  # with a server that asks to try again later
SHORTEST_PAUSE = 0.1  # also after `Retry-After: 0`
# Bytes: a server that never stops sending must not fill the memory.
MAX_LINE = 32 << 20  # one watch event
MAX_DOCUMENT = 1 << 30  # one response; a page of a list may have 500 objects of more than a megabyte
BEGINNING: Final = 1 << 20  # of a line that is too long
MAX_REFUSAL = 1 << 20
SLOWEST = 16 << 10  # bytes a second, of a document that takes long
CLOSED: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class _Headers(Protocol):
    def multi_items(self) -> list[tuple[str, str]]: ...


class Streamed(Protocol):
    """A response whose body is read as it arrives: the part of httpx's that is used."""

    @property
    def status_code(self) -> int: ...

    @property
    def reason_phrase(self) -> str: ...

    @property
    def headers(self) -> _Headers: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, without its content coding. Raises WrongCoding."""


class _Response:
    """A response of httpx whose body we decode."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status_code = response.status_code
        self.reason_phrase = response.reason_phrase
        self.headers = response.headers

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        return decoded(self.headers, self._response.aiter_raw())


class _Lines:
    """Joins lines that arrive in parts; what a broken connection leaves of the last one is dropped."""

    def __init__(self) -> None:
        self._rest = bytearray()  # many small parts take no more memory than a large one
        self._skipped = 0  # bytes of a line of which only the beginning is kept

    def split(self, data: bytes) -> list[bytes | TooLong]:
        """Add data; returns the lines that it completes. Raises ClientError for a line without an end."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | TooLong] = [self._completed(end) for end in ends]
        self._add(rest)
        return lines

    def _completed(self, end: bytes) -> bytes | TooLong:
        if not self._rest and len(end) <= MAX_LINE:
            return end
        self._add(end)
        line, too_long = bytes(self._rest), self._skipped
        self._rest, self._skipped = bytearray(), 0
        return TooLong(line) if too_long else line

    def _add(self, part: bytes) -> None:
        if not self._skipped:
            self._rest += part
            if len(self._rest) <= MAX_LINE:
                return
            self._skipped = len(self._rest)
            del self._rest[BEGINNING:]
        else:
            self._skipped += len(part)
        if self._skipped > MAX_DOCUMENT:
            raise ClientError(f"the server sent a watch event of more than {MAX_DOCUMENT >> 20} MiB")


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line of more than MAX_LINE bytes, of which the beginning is kept."""

    beginning: bytes


def too_large() -> ClientError:
    return ClientError(f"the server sent a watch event of more than {MAX_LINE >> 20} MiB")


async def refuse_too_long(_: bytes) -> None:
    raise too_large()


class StreamingSession(Session):
    def __init__(self, target: Target, agent: str = "rewound") -> None:
        super().__init__(target, agent)
        self._contexts: dict[KeyPair | None, ssl.SSLContext] = {}
        self._clients: dict[KeyPair | None, httpx.AsyncClient] = {}
        self.requests = 0
        self.patience = READ_SECONDS  # with a document that comes more slowly than `SLOWEST`

    def statistics(self) -> dict[str, int]:
        return {"requests": self.requests}

    async def aclose(self) -> None:
        clients, self._clients = self._clients, {}
        for one in clients.values():
            await one.aclose()

    async def get_document(self, path: str, **query: str) -> Document:
        """The document of a successful GET, as `get_bytes` returns it. Raises StatusError or ClientError."""
        try:
            document = orjson.loads(await self.get_bytes(path, **query))
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise NoDocument(f"{self.target.server}{path} did not respond with a JSON object")
        return document

    async def get_bytes(self, path: str, **query: str) -> bytes:
        """The body of a successful GET. Raises StatusError or ClientError.

        It tries again as long as the server asks for that (429, 503), for at most a minute.
        """
        until = trio.current_time() + MOST_PATIENT
        while True:
            try:
                async with self._open_response(path, query, READ_SECONDS) as response:
                    return await self._read(response, MAX_DOCUMENT)
            except StatusError as error:
                if error.retry_after is None or trio.current_time() + error.retry_after > until:
                    raise
                pause = max(error.retry_after, SHORTEST_PAUSE)
            await trio.sleep(pause)

    async def post_bytes(self, path: str, body: bytes, seconds: float, most: int = MAX_DOCUMENT) -> bytes:
        """The body of a successful response to a JSON document. Raises StatusError or ClientError."""
        async with self._open_response(path, {}, seconds, body) as response:
            return await self._read(response, most)

    async def _read(self, response: Streamed, most: int) -> bytes:
        """The whole body. Raises ClientError if it is longer than `most`, or comes too slowly."""
        body = bytearray()
        began = trio.current_time()

        async def add(data: bytes) -> None:
            body.extend(data)
            if len(body) > most:
                raise ClientError(f"{self.target.server} sent a response of more than {most >> 20} MiB")
            scope.deadline = began + self.patience + len(body) / SLOWEST

        with trio.CancelScope(deadline=began + self.patience) as scope:
            failure = await _read_all(response, add)
            if failure is not None:
                raise failure
        if scope.cancelled_caught:
            raise ClientError(
                f"{self.target.server} sent a response at less than {SLOWEST >> 10} KiB a second"
            )
        return bytes(body)

    async def read_lines(
        self,
        path: str,
        seconds: float,
        take: Callable[[bytes], Awaitable[None]],
        too_long: Callable[[bytes], Awaitable[None]] = refuse_too_long,
        **query: str,
    ) -> None:
        """Pass the lines of a long GET to `take`, until its end; `silence` is the longest pause between two.

        `too_long` gets the beginning of a line of more than MAX_LINE bytes. Raises StatusError, ClientError, and what
        `take` and `too_long` raise, which ends it.
        """
        lines = _Lines()

        async def split(data: bytes) -> None:
            for line in lines.split(data):
                await (too_long(line.beginning) if isinstance(line, TooLong) else take(line))

        await self.read_parts(path, seconds, split, **query)

    async def read_parts(
        self, path: str, seconds: float, take: Callable[[bytes], Awaitable[None]], **query: str
    ) -> None:
        """Pass the bytes of a long GET to `take` as they arrive, like `read_lines`."""
        async with self._open_response(path, query, seconds) as response:
            failure = await _read_all(response, take)
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def _open_response(
        self, path: str, query: dict[str, str], seconds: float, body: bytes | None = None
    ) -> AsyncIterator[Streamed]:
        """The successful response to a GET, or to a POST of a JSON document."""
        credential = await self.credential()
        headers = self.headers(credential)
        if body is not None:
            headers.append((b"content-type", b"application/json"))
        self.requests += 1
        async with self._exchange(credential, path, query, seconds, body, headers) as response:
            if response.status_code == 401:
                self.target.credentials.rejected(credential)
            if response.status_code >= 300:
                refusal = await self._read(response, MAX_REFUSAL)
                headers_of = tuple(response.headers.multi_items())
                raise self._refusal(
                    Response(response.status_code, refusal, response.reason_phrase, headers_of), credential
                )
            yield response

    @asynccontextmanager
    async def _exchange(
        self,
        credential: Credential,
        path: str,
        query: dict[str, str],
        seconds: float,
        body: bytes | None,
        headers: list[tuple[bytes, bytes]],
    ) -> AsyncIterator[Streamed]:
        """Send a request, and read its response; both for at most `seconds` without a byte. Raises ClientError."""
        client = self._client(credential)
        name = self.target.tls_server_name
        try:
            request = client.build_request(
                "GET" if body is None else "POST",
                self.target.server.rstrip("/") + path,
                params=query or None,
                content=body,
                headers=headers,
                timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS, pool=None),
                extensions={"sni_hostname": name} if name else None,
            )
            response = await self._head_of(client, request, seconds)
            try:
                yield _Response(response)
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            raise self.silent(seconds) from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise self._connection_error(error) from error
        except WrongCoding as error:
            raise self.unreadable(error) from error

    async def _head_of(
        self, client: httpx.AsyncClient, request: httpx.Request, seconds: float
    ) -> httpx.Response:
        """Send a request, and read the head of its response, whose parts alone have a timeout in httpx."""
        try:
            with trio.fail_after(CONNECT_SECONDS + seconds):
                return await client.send(request, stream=True)
        except trio.TooSlowError as error:
            raise self.silent(seconds) from error

    def unreadable(self, error: WrongCoding) -> ClientError:
        return ClientError(f"{self.target.server} sent a response that cannot be read: {error}")

    def silent(self, seconds: float) -> ClientError:
        return ClientError(f"{self.target.server} did not respond within {seconds:g} seconds")

    async def connect(self, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        """Open a stream to the server, through its proxy if there is one. Raises ClientError."""
        try:
            with trio.fail_after(CONNECT_SECONDS):
                return await dial(self.target, tls)
        except UnusableProxy:
            raise self._unusable_proxy() from None
        except trio.TooSlowError as error:
            raise self.silent(CONNECT_SECONDS) from error
        except (*CLOSED, OSError, UnicodeError) as error:
            raise self.connection_error(error) from error

    def connection_error(self, error: Exception) -> ClientError:
        """Describe an error of a stream. Those of trio say little, their cause says why."""
        cause = error.__cause__
        if isinstance(cause, ExceptionGroup):
            cause = cause.exceptions[0]  # of the first address
        return self._connection_error(
            cause if isinstance(error, (*CLOSED, OSError)) and isinstance(cause, Exception) else error
        )

    async def credential(self) -> Credential:
        """Get the credential in a thread, because plugins and identity providers may be slow."""
        source = self.target.credentials
        if isinstance(source, FixedCredential):
            return source.credential()
        return await trio.to_thread.run_sync(source.credential)

    def _client(self, credential: Credential) -> httpx.AsyncClient:
        """A new client for a new certificate: it is presented in the TLS handshake only."""
        found = self._clients.get(credential.pair)
        if found is None:
            target = self.target
            local = is_local(target.server)
            # Plain HTTP needs no context: loading the system's CAs is slow.
            context = self.context(credential.pair) if target.server.startswith("https:") else False
            try:
                found = httpx.AsyncClient(
                    verify=context,
                    proxy=target.proxy_url or environment_proxy(target.server) or None,
                    trust_env=False,
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
                    # Compression costs more than it saves on one machine.
                    headers={"accept-encoding": IDENTITY if local else GZIP},
                )
            except (ValueError, ImportError) as error:
                raise self._unusable_proxy() from error
            self._clients[credential.pair] = found
        return found

    def context(self, pair: KeyPair | None) -> ssl.SSLContext:
        found = self._contexts.get(pair)
        if found is None:
            target = self.target
            found = self._contexts[pair] = client_context(
                target.authority, pair, target.configured_in, insecure=target.insecure
            )
        return found


async def _read_all(response: Streamed, take: Callable[[bytes], Awaitable[None]]) -> Exception | None:
    """Pass data to `take` until the end, or until `take` raises: returns what it raised.

    The response is then cancelled, not abandoned: the iterators of the HTTP library are generators, which must not be
    garbage-collected half-read. So a cancelled `take` goes on to read, which is cancelled too.
    """
    failure: Exception | None = None
    cancelled: trio.Cancelled | None = None
    with trio.CancelScope() as scope:
        async for data in response.aiter_bytes():
            if failure is None and cancelled is None:
                try:
                    await take(data)
                except trio.Cancelled as error:
                    cancelled = error
                except Exception as error:
                    failure = error
                    scope.cancel()
        if cancelled is not None:
            raise cancelled  # the response ended before it was read again
    return failure

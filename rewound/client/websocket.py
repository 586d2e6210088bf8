"""The client for trio whose watches are WebSockets, for proxies and load balancers that delay or cut long responses.

Everything else is inherited from `StreamingSession`: credentials, trusted CA, proxy, limits, errors. A message is an
event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
import trio
import trio_websocket

from rewound.client import streaming
from rewound.client.connections import Response
from rewound.client.credentials import Credential
from rewound.client.errors import ClientError
from rewound.client.streaming import MAX_REFUSAL, StreamingSession

_RECEIVED = 1 << 16  # bytes at once
_ENDED = (1000, 1001)  # close codes: the watch is over, the server stops
_TOO_LARGE = 1009


class WebSocketSession(StreamingSession):
    async def read_lines(
        self,
        path: str,
        seconds: float,
        take: Callable[[bytes], Awaitable[None]],
        too_long: Callable[[bytes], Awaitable[None]] = streaming.refuse_too_long,
        **query: str,
    ) -> None:
        """Like that of a chunked response, but a message that is too long ends the connection (`too_long` gets b"")."""
        credential = await self.credential()
        url = httpx.URL(self.target.server.rstrip("/") + path, params=query)
        # Servers in Go refuse a WebSocket without an origin.
        origin = (b"origin", f"{url.scheme}://{url.netloc.decode()}".encode())
        headers = [*self.headers(credential), origin]
        self.requests += 1
        context = self.context(credential.pair) if url.scheme == "https" else None
        socket = await self.connect(context)
        stream = _WatchedStream(self, socket, seconds)
        ended: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                with trio.move_on_after(seconds) as handshake:
                    connection = await trio_websocket.wrap_client_stream(
                        nursery,
                        stream,  # type: ignore[arg-type]  # any stream will do
                        url.netloc.decode(),
                        url.raw_path.decode(),
                        extra_headers=headers,
                        max_message_size=streaming.MAX_LINE,
                        receive_buffer_size=_RECEIVED,
                    )
                if handshake.cancelled_caught:
                    ended = self.silent(seconds)
                else:
                    stream.is_open = True
                    ended = await self._take_messages(connection, take, too_long)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            failed, others = group.split(Exception)
            if others is not None:
                raise others from None  # cancelled
            ended = self._protocol_error(_first(failed), credential)
        finally:
            await trio.aclose_forcefully(socket)
        # The error of the stream caused all others.
        ended = stream.failure or ended
        if ended is not None:
            raise ended

    async def _take_messages(
        self,
        connection: trio_websocket.WebSocketConnection,
        take: Callable[[bytes], Awaitable[None]],
        too_long: Callable[[bytes], Awaitable[None]],
    ) -> Exception | None:
        """Take events until the watch ends; returns the error that ended it early, if any."""
        try:
            while True:
                message = await connection.get_message()
                await take(message.encode() if isinstance(message, str) else message)
        except trio_websocket.ConnectionClosed as closed:
            code = closed.reason.code if closed.reason is not None else 1002
            if code in _ENDED:
                return None
            if code == _TOO_LARGE:
                return await _failure_of(too_long)
            text = (closed.reason.reason if closed.reason is not None else None) or "no reason given"
            return ClientError(f"{self.target.server} closed the WebSocket of a watch: {code} ({text})")
        except Exception as error:
            return error

    def _protocol_error(self, error: Exception, credential: Credential) -> Exception:
        """The error for one of the library, which has no base class for its errors."""
        if isinstance(error, trio_websocket.ConnectionRejected):
            if error.status_code == 401:
                self.target.credentials.rejected(credential)
            headers = tuple((name.decode(), value.decode("latin-1")) for name, value in error.headers or ())
            return self._refusal(Response(error.status_code, error.body or b"", "", headers), credential)
        if isinstance(error, ClientError):
            return error
        failure = ClientError(f"{self.target.server} does not speak the WebSocket protocol ({error!r})")
        failure.__cause__ = error
        return failure


class _WatchedStream(trio.abc.Stream):
    """The connection of a watch, with checks that the WebSocket library lacks.

    Silence is an error, and so is, in place of a handshake, an end, an endless refusal or an invalid response.
    """

    def __init__(self, session: WebSocketSession, stream: trio.abc.Stream, seconds: float) -> None:
        self._session = session
        self._stream = stream
        self._seconds = seconds
        self._received = b""  # the first bytes of the response: HTTP/1.1 101
        self._size = 0  # bytes received before the handshake was complete
        self.is_open = False
        self.failure: ClientError | None = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._stream.send_all(data)
        except streaming.CLOSED as error:
            if self.is_open:
                raise
            raise self._failed(error) from error

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data: bytes | bytearray = b""
        try:
            with trio.fail_after(self._seconds):
                data = await self._stream.receive_some(max_bytes)
        except trio.TooSlowError as error:
            self.failure = self._session.silent(self._seconds)
            raise self.failure from error
        except streaming.CLOSED as error:
            if self.is_open:
                raise
            raise self._failed(error) from error
        if not self.is_open:
            self._check_response(data)
        return data

    def _check_response(self, data: bytes | bytearray) -> None:
        """Raise the error of a refusal early: the library waits until its body has ended by its length."""
        self._received = (self._received + data)[:12]
        self._size += len(data)
        status, server = self._received[9:], self._session.target.server
        is_refusal = len(status) == 3 and status.isdigit() and status != b"101"
        if is_refusal and status.startswith(b"2"):
            self.failure = ClientError(
                f"{server} does not serve watches as WebSockets; leave --websocket out"
            )
        elif is_refusal and not data:
            raise trio_websocket.ConnectionRejected(int(status), (), None)
        elif not data:
            self.failure = self._failed(OSError("the connection ended before its response"))
        elif self._size > MAX_REFUSAL:
            self.failure = ClientError(f"{server} sent a response of more than {MAX_REFUSAL >> 20} MiB")
        if self.failure is not None:
            raise self.failure

    def _failed(self, error: Exception) -> ClientError:
        self.failure = self._session.connection_error(error)
        return self.failure

    async def aclose(self) -> None:
        """Close it. The library calls this after protocol errors, also during the handshake."""
        await trio.aclose_forcefully(self._stream)
        if not self.is_open:
            raise self._failed(OSError("its response opens no WebSocket"))


async def _failure_of(too_long: Callable[[bytes], Awaitable[None]]) -> Exception | None:
    """Report a message that is too long, of which the library keeps nothing."""
    try:
        await too_long(b"")
    except Exception as error:
        return error
    return streaming.too_large()


def _first(group: BaseException | None) -> Exception:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    assert isinstance(group, Exception)
    return group

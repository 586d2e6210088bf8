"""The client of a forwarded request on HTTP/2: the parts of its body as the windows let them arrive, and the response.

The connection runs `forward` in the task of the stream, which a reset of the stream cancels. Data of a body that nobody
has taken stays unacknowledged on the stream and on the connection, so that a slow receiver holds back the client.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import NoReturn

import trio
from trio.lowlevel import Abort, current_task, wait_task_rescheduled

from gateway.connections.heads import Heads, has_body
from gateway.connections.http2.heads.response_heads import field_block
from gateway.connections.http2.output import Output
from gateway.connections.http2.protocol import DATA, END_STREAM, INTERNAL_ERROR, frame, header_frames
from gateway.connections.http2.receiver import Receiver
from gateway.connections.http2.responses import Responses
from gateway.connections.http2.stream import Stream
from gateway.connections.http2.uploads import Uploads
from gateway.connections.server_state import ServerState
from gateway.message import BodyNotRead, CutOff, Fields, Request, Response, SharedFields
from gateway.observer import add_audit_id


class Http2Client:
    __slots__ = (
        "_bare",
        "_forwards",
        "_received",
        "_request",
        "_shared",
        "_stream",
        "may_upgrade",
        "started",
    )

    def __init__(
        self, forwards: Forwards, stream: Stream, request: Request, shared: SharedFields | None
    ) -> None:
        self._forwards = forwards
        self._stream = stream
        self._request = request
        self._shared = shared
        self._received = False  # the whole body
        self._bare = False  # the head has ended the stream
        self.may_upgrade = False
        self.started = False

    async def receive_body(self) -> bytes:
        stream = self._stream
        if self._received:
            return b""
        if not stream.started:  # its body arrived before it was handled
            self._received = True
            return self._request.body
        while True:
            if part := self._forwards.take_body(stream):
                return part
            if stream.request_ended:
                self._received = True
                stream.parts = None
                return b""
            stream.reader = current_task()
            await wait_task_rescheduled(partial(_stop_reading, stream))
            if stream.fault is not None:
                raise BodyNotRead(stream.fault.status, stream.fault.message)
            if stream.closed:
                raise BodyNotRead

    async def wait_disconnected(self) -> None:
        await trio.sleep_forever()  # a reset of the stream cancels the task

    async def respond(self, response: Response) -> None:
        self.started = True
        response.shared = self._shared
        self._forwards.respond(self._stream, response)

    async def start(self, response: Response) -> None:
        self.started = True
        response.shared = self._shared
        self._bare = self._request.method == "HEAD" or not has_body(response.status)
        self._stream.patient = True  # a client may pause a log for as long as it likes
        self._forwards.send_head(self._stream, response, end=self._bare)
        exchange = self._request.exchange
        if exchange is not None and exchange.stored is not None:
            await exchange.stored()

    async def send(self, part: bytes) -> None:
        await self._stream.send_part(part)

    async def finish(self, trailers: Fields) -> None:
        if not self._bare:
            self._forwards.send_end(self._stream, trailers)
        self._forwards.finish(self._stream)

    async def upgrade(self, head: bytes) -> NoReturn:
        raise AssertionError("HTTP/2 has no upgrades")


class Forwards(Responses):
    """The forwarded requests of one connection."""

    __slots__ = ("_uploads",)

    def __init__(
        self,
        server: ServerState,
        heads: Heads,
        output: Output,
        receiver: Receiver,
        uploads: Uploads,
    ) -> None:
        super().__init__(server, heads, output, receiver)
        self._uploads = uploads

    async def run(self, stream: Stream, request: Request, response: Response) -> None:
        """Forward a request and its response."""
        client = Http2Client(self, stream, request, response.shared)
        assert response.forwarding is not None
        if stream.started:
            self._begin_body(stream)
        try:
            await response.forwarding.run(client)
        except BodyNotRead as error:
            if not stream.closed:
                self._fail(client, stream, self._server.responder.refusal(error.status or 400, error.message))
        except CutOff as error:
            self._server.responder.cut_off(request, error)
            self._reset(stream)
        except OSError:
            self._reset(stream)
        except Exception as error:
            self._fail(client, stream, self._server.responder.failure(request, error))

    def _begin_body(self, stream: Stream) -> None:
        """From now on the body is taken in parts; the forwarding has the time limits."""
        stream.streamed = True
        stream.deadline = inf
        self._uploads.send_continue(stream)
        self._output.flush_later()

    def take_body(self, stream: Stream) -> bytes:
        part = self._receiver.bodies.take(stream)
        if part:
            self._output.flush_later()
        return part

    def respond(self, stream: Stream, response: Response) -> None:
        self.send(stream, response)
        self._output.flush_later()

    def send_head(self, stream: Stream, response: Response, *, end: bool) -> None:
        if stream.closed:
            raise ConnectionResetError("the client disconnected")
        request = stream.request
        exchange = None if request is None else request.exchange
        if exchange is not None:
            add_audit_id(response, exchange)
        block = self._receiver.size_update + self._heads.head(response, None, b"")
        self._output.control(header_frames(block, stream.number, end=end))
        self._output.flush_later()
        stream.responding = stream.in_parts = True
        if exchange is not None:
            exchange.start(response.status, stream)

    def send_end(self, stream: Stream, trailers: Fields) -> None:
        if stream.closed or self._output.failed:
            raise ConnectionResetError("the client disconnected")
        if trailers:
            block = self._receiver.size_update + field_block(trailers)
            self._output.control(header_frames(block, stream.number, end=True))
        else:
            self._output.control(frame(DATA, END_STREAM, stream.number))

    def finish(self, stream: Stream) -> None:
        if not stream.closed:
            self._output.flush_later()
            self.complete(stream)

    def _fail(self, client: Http2Client, stream: Stream, response: Response) -> None:
        if client.started:
            self._reset(stream)
        elif not stream.closed:
            response.shared = None
            self.respond(stream, response)

    def _reset(self, stream: Stream) -> None:
        if not stream.closed:
            self._receiver.end_stream(stream, INTERNAL_ERROR)
            self._output.flush_later()


def _stop_reading(stream: Stream, _raise_cancel: object) -> Abort:
    stream.reader = None
    return Abort.SUCCEEDED

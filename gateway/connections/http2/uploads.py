"""Requests on one HTTP/2 connection whose body has not arrived with their head: handlers read it when they want it.

Until then the peer may send no more than the first window of the stream, and what it sent is not acknowledged on the
connection either. `read` takes memory for the body, opens the windows, and waits for the end of the stream.
"""

from __future__ import annotations

from functools import partial

from trio.lowlevel import Abort, current_task, wait_task_rescheduled

from gateway.connections.http2.bodies import STREAM_WINDOW
from gateway.connections.http2.output import Output
from gateway.connections.http2.protocol import CONTINUE, header_frames
from gateway.connections.http2.receiver import Receiver
from gateway.connections.http2.stream import Stream
from gateway.connections.parsing.fault import Fault
from gateway.connections.server_state import ServerState
from gateway.memory.budget import SMALL
from gateway.message import BodyNotRead, Request

# A body of unknown length takes memory in steps of this size.
_STEP = 256 * 1024
_LEAST_ROOM = STREAM_WINDOW // 2
_TOO_SLOW = Fault(408, "the request did not arrive in time")


class Uploads:
    __slots__ = ("_output", "_receiver", "_server")

    def __init__(self, server: ServerState, output: Output, receiver: Receiver) -> None:
        self._server = server
        self._output = output
        self._receiver = receiver

    def take_begun(self) -> list[tuple[Stream, Request]]:
        """Return the streams whose head has arrived without the whole body, and their requests, to be handled."""
        begun, self._receiver.begun = self._receiver.begun, []
        return [(stream, self._begin(stream)) for stream in begun if stream.parts is not None]

    def _begin(self, stream: Stream) -> Request:
        request, server = stream.request, self._server
        assert request is not None
        request.arriving = partial(self._read, stream)
        stream.started = True
        server.responder.requests += 1
        if server.responder.observe is not None:
            server.responder.observe(request)
        return request

    async def _read(self, stream: Stream) -> bytes:
        """Return the whole body of a request. BodyNotRead, TooManyRequests."""
        request, bodies = stream.request, self._receiver.bodies
        assert request is not None
        if stream.parts is not None:
            if stream.expected > SMALL:
                await self._server.responder.memory.wait_for(request, stream.expected)
            self._restart_clock(stream)
            self.send_continue(stream)
            bodies.want(stream)
            self._output.flush_later()
        while stream.parts is not None:
            if stream.expected < 0 and bodies.room(stream) < _LEAST_ROOM:
                await self._server.responder.memory.wait_for(request, _STEP)
                bodies.open_stream(stream)
                self._output.flush_later()
                continue
            stream.reader = current_task()
            await wait_task_rescheduled(partial(_stop_reading, stream))
        if stream.fault is not None:
            raise BodyNotRead(stream.fault.status, stream.fault.message)
        if stream.closed:
            raise BodyNotRead
        request.arriving = None
        return request.body

    def _restart_clock(self, stream: Stream) -> None:
        """The peer could not send the rest before: it has its time from now on."""
        if stream.parts is not None:
            server = self._server
            stream.began = server.now
            stream.deadline = server.limits.transfer_deadline(server.now, 0, server.now)

    def send_continue(self, stream: Stream) -> None:
        if stream.expects_continue and not stream.received:
            block = self._receiver.size_update + CONTINUE
            self._output.control(header_frames(block, stream.number, end=False))

    def expire(self, stream: Stream, now: float, *, leaving: bool) -> None:
        """The deadline of a body has passed: extend it if enough has arrived, else the request gets 408."""
        due = self._server.limits.transfer_deadline(stream.began, stream.received)
        if due > now and not leaving:
            stream.deadline = due
        else:
            self._receiver.refuse(stream, _TOO_SLOW, ended=False)


def _stop_reading(stream: Stream, _raise_cancel: object) -> Abort:
    stream.reader = None
    return Abort.SUCCEEDED

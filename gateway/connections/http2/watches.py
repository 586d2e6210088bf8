"""The watches of one HTTP/2 connection.

A task starts a watch: it sends the head, the existing objects and the events since. Once the watch has joined its
group, the group sends, and the watch has no task, which is most of the memory of an idle one. An interruption (its
timeout, a stopping server, a failed group) starts a task that ends it; a reset or a lost connection needs none.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from gateway.connections.heads import Heads
from gateway.connections.http2.output import Output
from gateway.connections.http2.protocol import CANCEL, DATA, END_STREAM, INTERNAL_ERROR, frame, header_frames
from gateway.connections.http2.receiver import Receiver
from gateway.connections.http2.responses import cut_off
from gateway.connections.http2.stream import Stream
from gateway.connections.server_state import log
from gateway.message import EndReason, Finished, Response
from gateway.observer import add_audit_id
from gateway.watch.framing import as_it_is


class Watches:
    __slots__ = ("_ended", "_heads", "_nursery", "_output", "_receiver")

    def __init__(
        self,
        output: Output,
        receiver: Receiver,
        heads: Heads,
        nursery: trio.Nursery,
        ended: Callable[[], None],
    ) -> None:
        """`ended()`: a task that ended a watch has ended."""
        self._output = output
        self._receiver = receiver
        self._heads = heads
        self._nursery = nursery
        self._ended = ended

    async def start(self, stream: Stream, response: Response) -> None:
        """Start a watch, and end it if it is over before it joins its group."""
        output, watch, request = self._output, response.stream, stream.request
        assert watch is not None and request is not None
        exchange = request.exchange
        self._receiver.release_memory(request)
        stream.request = None
        if exchange is not None:
            add_audit_id(response, exchange)
        block = self._receiver.size_update + self._heads.head(response, None, b"")
        output.control(header_frames(block, stream.number, end=False))
        output.flush_later()
        stream.watch, stream.exchange = watch, exchange
        output.watches += 1
        output.transport.streaming = True
        if exchange is not None:
            exchange.start(response.status, stream)
        try:
            finished = await watch.start(stream, as_it_is)
        except BaseException as error:
            self._fail(stream, error)
            if not isinstance(error, Exception):
                raise
            return
        if finished is not None:
            self._finish(stream, finished)
            return
        stream.sweeping = True
        self.interrupted(stream)  # it may have been interrupted before

    def interrupted(self, stream: Stream) -> None:
        """Look whether a watch without a task has ended, or has to end."""
        watch = stream.watch
        assert watch is not None
        if stream.closed or self._output.failed:
            stream.sweeping = False
            watch.leave()
            self._forget(stream)
        elif watch.should_end():
            stream.sweeping = False
            self._nursery.start_soon(self._end, stream)

    async def _end(self, stream: Stream) -> None:
        assert stream.watch is not None
        try:
            finished = await stream.watch.end()
        except BaseException as error:
            self._fail(stream, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._finish(stream, finished)
        finally:
            self._ended()

    def _finish(self, stream: Stream, finished: Finished) -> None:
        """The watch has sent its last event: end the stream."""
        output, exchange = self._output, stream.exchange
        if not (stream.closed or output.failed):
            if exchange is not None:
                if finished.reason is EndReason.FAILED:
                    exchange.panic()
                output.complete_when_sent(exchange)
                stream.exchange = None
            output.control(frame(DATA, END_STREAM, stream.number))
            output.flush_later()
        self._forget(stream)

    def _fail(self, stream: Stream, error: BaseException) -> None:
        """The watch ended before its end: the client disconnected or does not read, or it failed."""
        code = CANCEL
        if isinstance(error, Exception) and not isinstance(error, OSError):
            log.error("a watch failed", exc_info=error)
            if stream.exchange is not None:
                stream.exchange.panic(error)
            code = INTERNAL_ERROR
        if not stream.closed:
            self._receiver.end_stream(stream, code)
            self._output.flush_later()
        self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        output = self._output
        output.watches -= 1
        output.transport.streaming = output.watches > 0
        cut_off(stream.exchange)
        stream.exchange = None
        stream.watch = None  # they refer to each other
        self._receiver.forget(stream)

"""Watches on one HTTP/2 connection, a stream each.

The connection reads frame headers to know whose data follows and counts marks in the data. Its windows are as large as
HTTP/2 allows, and no workload sends a stream two gigabytes; only a stream that should stall gets a window of a few
events, and the rest when it is released.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import lru_cache

from benchmarks.loads import http2
from benchmarks.loads.header_blocks import RequestBlocks, status_of
from benchmarks.loads.request import Request
from benchmarks.servers.endpoint import Endpoint
from benchmarks.watchers.watcher import MARK, NotServed, OnEvents, WatchConnection, Watcher

# Bytes of a stream's window that is used up after a few events.
USED_UP = 8192


class Http2Watches(WatchConnection):
    __slots__ = ("_headless", "_initial", "_on_events", "_out", "_reader", "_streams", "_window")

    def __init__(
        self,
        watchers: Sequence[Watcher],
        endpoint: Endpoint,
        requests: tuple[Request, ...],
        context: ssl.SSLContext | None,
        buffer: bytearray,
        on_events: OnEvents,
        *,
        by_window: bool,
    ) -> None:
        """`by_window`: stalled watches do read, but their windows are used up; otherwise nobody reads the socket."""
        stalled = watchers[0].stalled
        self._on_events = on_events
        self._initial = USED_UP if stalled and by_window else http2.LARGEST_WINDOW
        self._streams = {2 * number + 1: watcher for number, watcher in enumerate(watchers)}
        self._headless = set(self._streams)
        self._out: list[bytes] = []
        self._window = http2.ReceiveWindow(0)
        self._reader = http2.FrameReader(self._on_data, self._on_frame)
        request = _opening_bytes(requests, context is not None, endpoint.token, self._initial)
        super().__init__(watchers, endpoint, request, context, buffer, unread=stalled and not by_window)

    @property
    def opened(self) -> bool:
        return not self._headless

    def received(self, size: int) -> None:
        self._reader.feed(self.buffer, size)
        if self._out:
            self._flush()

    def _flush(self) -> None:
        self.sock.send(b"".join(self._out))
        self._out.clear()

    def _on_data(self, stream: int, data: bytes | bytearray, start: int, end: int, ends: bool) -> None:
        events = data.count(MARK, start, end)
        if events:
            self._on_events(self._streams[stream], events)
        if update := self._window.received(end - start):
            self._out.append(update)
        if ends:
            raise NotServed(f"the server ended a watch: {bytes(data[start:end])[-300:]!r}")

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == http2.HEADERS:
            status = status_of(payload)
            if status != 200 or flags & http2.END_STREAM:
                raise NotServed(f"the response to a watch was {status}")
            self._headless.discard(stream)
        elif kind in (http2.RST_STREAM, http2.GOAWAY):
            raise NotServed(f"the server ended a watch: frame type {kind}, {payload!r}")
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            self._out.append(http2.SETTINGS_ACK)
        elif kind == http2.PING and not flags & http2.ACK:
            self._out.append(http2.frame(http2.PING, http2.ACK, 0, payload))

    def release(self) -> None:
        super().release()
        if self._initial == USED_UP:
            self._out += [http2.window_update(stream, 1 << 30) for stream in self._streams]
            self._flush()


@lru_cache
def _opening_bytes(requests: tuple[Request, ...], tls: bool, token: str, window: int) -> bytes:
    """The preface, settings and all requests of a connection."""
    blocks = RequestBlocks(tls=tls, token=token)
    flags = http2.END_HEADERS | http2.END_STREAM
    frames = [
        http2.frame(http2.HEADERS, flags, 2 * number + 1, blocks.block(request))
        for number, request in enumerate(requests)
    ]
    return http2.greeting(window) + b"".join(frames)

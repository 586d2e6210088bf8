"""docs/decisions/0016-http2.md: CPU of a get over HTTP/2 by our own code and on the classes of three libraries.

Each alternative serves one client over TLS on our transport, in a process of its own; the client sends prepared frames
whose header block repeats byte for byte, one at a time or ten in one write.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import trio

from benchmarks.baselines.certificate import write_certificate
from benchmarks.decisions.apart import SPAWN, apart
from benchmarks.decisions.connections.http1 import GET as HTTP1_GET
from benchmarks.decisions.connections.http2_heads import PATH, encoded
from benchmarks.decisions.connections.http2_servers import BODY, HTTP1, SERVERS
from benchmarks.decisions.measure import Effort, effort_of_command_line, show
from benchmarks.loads import http2
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.tls import SharedBios, TlsTransport

REQUESTS = 4000
ROUNDS = 4
PARTS = 20  # of a round; the one that took least CPU counts
_FLAGS = http2.END_HEADERS | http2.END_STREAM


def main(effort: Effort) -> None:
    names = list(SERVERS)
    _compare("one request at a time", names, 1, effort)
    # No client sends ten requests together over HTTP/1.1.
    _compare("ten requests that arrive together", [name for name in names if name != HTTP1], 10, effort)


def _compare(title: str, names: list[str], together: int, effort: Effort) -> None:
    """Print microseconds of CPU per request; the alternatives take turns, and the best of each counts."""
    best = dict.fromkeys(names, float("inf"))
    for _ in range(1 if effort.quick else ROUNDS):
        for name in names:
            if effort.quick:
                figure = measured(name, together, 2 * together, quick=True)
            else:
                figure = apart(measured, name, together, REQUESTS, False)
            best[name] = min(best[name], figure)
    show(title, best, "us")


def measured(name: str, together: int, requests: int, quick: bool) -> float:
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*write_certificate(Path(folder)))
        arguments = (listener.getsockname()[1], together, requests, name == HTTP1)
        client = (
            Thread(target=_client, args=arguments) if quick else SPAWN.Process(target=_client, args=arguments)
        )
        client.start()
        trio.run(_serve, listener, context, name, lambda: marks.append(time.process_time()))
        client.join()
    assert len(marks) == requests, name
    step = max(1, requests // PARTS)
    spent = [later - sooner for sooner, later in zip(marks[::step], marks[step::step], strict=False)]
    return min(spent, default=0.0) / step * 1e6


async def _serve(
    listener: socket.socket, context: ssl.SSLContext, name: str, count: Callable[[], None]
) -> None:
    """Serve one connection until the client closes it."""
    sock, _ = await trio.to_thread.run_sync(listener.accept)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    transport = TlsTransport(sock, Limits(), context, SharedBios())
    try:
        await transport.handshake()
        await SERVERS[name](transport, count)
    except (OSError, trio.ClosedResourceError):
        pass  # the client has closed the connection
    transport.close()


def _client(port: int, together: int, requests: int, http1: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as stream:
        if http1:
            _ask_http1(stream, together, requests)
        else:
            _ask(stream, together, requests)


def _ask_http1(stream: ssl.SSLSocket, together: int, requests: int) -> None:
    left = 0
    for _ in range(0, requests, together):
        stream.sendall(HTTP1_GET * together)
        left += together * len(BODY)
        while left > 0:
            left -= stream.recv(65536).count(BODY[:1])  # which no head contains


def _ask(stream: ssl.SSLSocket, together: int, requests: int) -> None:
    """Send requests; wait for all responses before the next."""
    waiting = 0

    def on_data(_stream: int, _data: bytes | bytearray, _start: int, _end: int, ends: bool) -> None:
        nonlocal waiting
        waiting -= ends

    def on_frame(_kind: int, flags: int, number: int, _payload: bytes) -> None:
        nonlocal waiting
        waiting -= bool(number and flags & http2.END_STREAM)

    reader = http2.FrameReader(on_data, on_frame)
    first, block, again = encoded([f"{PATH}/a?pretty=false"] * 3)
    assert block == again
    stream.sendall(_greeting())
    for start in range(0, requests, together):
        frames = [
            http2.frame(http2.HEADERS, _FLAGS, 2 * number + 1, block if number else first)
            for number in range(start, start + together)
        ]
        waiting += together
        stream.sendall(b"".join(frames))
        while waiting:
            data = stream.recv(65536)
            if not data:
                raise ConnectionResetError("closed by the server")
            reader.feed(data, len(data))


def _greeting() -> bytes:
    """The preface and windows that never limit; the header table has its default size, as with Go's clients."""
    settings = http2.frame(http2.SETTINGS, 0, 0, b"\0\x04" + http2.LARGEST_WINDOW.to_bytes(4, "big"))
    return (
        http2.PREFACE
        + settings
        + http2.window_update(0, http2.LARGEST_WINDOW - http2.DEFAULT_WINDOW)
        + http2.SETTINGS_ACK
    )


if __name__ == "__main__":
    main(effort_of_command_line())

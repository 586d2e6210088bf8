"""An HTTP server on trio without any handler: the baseline of the server's CPU per request.

    python -m benchmarks.baselines.echo_server --port 8001 [--tls-cert server.crt --tls-key server.key]

It responds to every request with the same 1 kB body and does nothing else: no limits, no timeouts, no handler.
The harness measures it in the same run as the server, plain and TLS, so that a slower machine slows both. It parses
HTTP/1.1 with httptools; with TLS a client that offers HTTP/2 gets that (`http2_echo`).
It prints `listening on PORT` once it accepts connections. TLS is an SSLObject on memory BIOs, the cheapest way that
Python's ssl module offers.
"""

from __future__ import annotations

import argparse
import socket
import ssl

import httptools
import trio
from trio.lowlevel import wait_readable, wait_writable

from benchmarks.baselines.http2_echo import Http2Echo

BODY = b"x" * 1024
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
RECEIVE = 64 * 1024


class Http1Echo:
    """Takes what a client sends; returns what it gets: a response for each complete request."""

    def __init__(self) -> None:
        self._complete = 0
        self._parser = httptools.HttpRequestParser(self)

    def on_message_complete(self) -> None:
        self._complete += 1

    def feed(self, data: bytes) -> bytes:
        self._parser.feed_data(data)
        complete, self._complete = self._complete, 0
        return RESPONSE * complete


async def send_all(sock: socket.socket, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            await wait_writable(sock)


async def echo_plain(sock: socket.socket) -> None:
    protocol = Http1Echo()
    while True:
        await wait_readable(sock)
        data = sock.recv(RECEIVE)
        if not data:
            return
        await send_all(sock, protocol.feed(data))


async def handshake(
    sock: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
) -> None:
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            await send_all(sock, outgoing.read())
            await wait_readable(sock)
            data = sock.recv(RECEIVE)
            if not data:
                raise ConnectionResetError("closed during the TLS handshake") from None
            incoming.write(data)
        else:
            await send_all(sock, outgoing.read())
            return


async def echo_tls(sock: socket.socket, context: ssl.SSLContext) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    await handshake(sock, tls, incoming, outgoing)
    protocol = Http2Echo(BODY) if tls.selected_alpn_protocol() == "h2" else Http1Echo()
    while True:
        if not incoming.pending:
            await wait_readable(sock)
            data = sock.recv(RECEIVE)
            if not data:
                return
            incoming.write(data)
        try:
            plain = tls.read(RECEIVE)
        except ssl.SSLWantReadError:
            continue
        if not plain:
            return
        if response := protocol.feed(plain):
            tls.write(response)
            await send_all(sock, outgoing.read())


async def echo(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    with sock:
        try:
            await (echo_plain(sock) if context is None else echo_tls(sock, context))
        except (OSError, httptools.HttpParserError):
            return


async def serve(port: int, context: ssl.SSLContext | None) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    listener.setblocking(False)
    print(f"listening on {listener.getsockname()[1]}", flush=True)
    async with trio.open_nursery() as nursery:
        while True:
            await wait_readable(listener)
            sock, _ = listener.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nursery.start_soon(echo, sock, context)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="An HTTP server without a handler: the baseline of the benchmarks."
    )
    parser.add_argument("--port", type=int, required=True, help="0 picks one and prints it")
    parser.add_argument("--tls-cert", help="PEM file; serves TLS together with --tls-key")
    parser.add_argument("--tls-key")
    arguments = parser.parse_args()
    context = None
    if arguments.tls_cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.load_cert_chain(arguments.tls_cert, arguments.tls_key)
    trio.run(serve, arguments.port, context)


if __name__ == "__main__":
    main()

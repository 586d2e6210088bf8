"""The baseline of every watch delivery: a bare loop of non-blocking sends.

    python -m benchmarks.baselines.send_loop_server --port 8001 --bytes 1300 [--tls-cert FILE --tls-key FILE]

Every connection that sends anything but a PUT is a watcher and gets the head of a chunked response. Every PUT sends
the same bytes to all watchers, one `send` each, under TLS after one `SSLObject.write` each. Nothing else happens: no
filter, no cursor, no yielding to other tasks, and the loop fails when a watcher does not read. It prints `listening
on PORT`.
"""

from __future__ import annotations

import argparse
import select
import socket
import ssl

from benchmarks.watchers.watcher import MARK

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
RECEIVE = 64 * 1024
BACKLOG = 4096


class Connection:
    """A client's socket and its TLS state."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        if context is not None:
            self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self._handshake_done = context is None

    def read(self) -> bytes | None:
        """The bytes received; None at end of stream, empty during the TLS handshake."""
        data = self.sock.recv(RECEIVE)
        if self.tls is None or not data:
            return data or None
        self.incoming.write(data)
        try:
            if not self._handshake_done:
                self.tls.do_handshake()
                self._handshake_done = True
            return self.tls.read(RECEIVE)
        except ssl.SSLWantReadError:
            return b""
        finally:
            if self.outgoing.pending:
                self.sock.send(self.outgoing.read())

    def write(self, data: bytes) -> None:
        if self.tls is None:
            self.sock.send(data)
        else:
            self.tls.write(data)
            self.sock.send(self.outgoing.read())


class SendLoop:
    def __init__(self, listener: socket.socket, size: int, context: ssl.SSLContext | None) -> None:
        self._listener, self._context = listener, context
        self._data = chunk(size)
        self._poll = select.epoll()
        self._poll.register(listener.fileno(), select.EPOLLIN)
        self._connections: dict[int, Connection] = {}
        self._watchers: dict[int, Connection] = {}

    def run(self) -> None:
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._listener.fileno():
                    self._accept()
                else:
                    self._receive(fd)

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[sock.fileno()] = Connection(sock, self._context)
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _receive(self, fd: int) -> None:
        connection = self._connections[fd]
        try:
            data = connection.read()
        except OSError:
            data = None
        if data is None:
            self._poll.unregister(fd)
            self._watchers.pop(fd, None)
            self._connections.pop(fd).sock.close()
        elif data.startswith(b"PUT "):
            self._send_to_all()
            connection.write(RESPONSE)
        elif data:
            self._watchers[fd] = connection
            connection.write(HEAD)

    def _send_to_all(self) -> None:
        data = self._data
        if self._context is None:
            for sock in [connection.sock for connection in self._watchers.values()]:
                sock.send(data)
            return
        for sock, tls, outgoing in [
            (connection.sock, connection.tls, connection.outgoing) for connection in self._watchers.values()
        ]:
            assert tls is not None
            tls.write(data)
            sock.send(outgoing.read())


def chunk(size: int) -> bytes:
    """One event of this many bytes on the wire, with one `MARK`."""
    line = b"%x\r\n" % max(1, size - 7)
    content = b"x" * max(1, size - len(line) - 3) + MARK
    return b"%x\r\n%b\r\n" % (len(content), content)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A bare loop of sends: the baseline of the watch benchmarks."
    )
    parser.add_argument("--port", type=int, required=True, help="0 picks one and prints it")
    parser.add_argument("--bytes", type=int, required=True, help="size of one event on the wire")
    parser.add_argument("--tls-cert", help="PEM file; serves TLS together with --tls-key")
    parser.add_argument("--tls-key")
    arguments = parser.parse_args()
    context = None
    if arguments.tls_cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.tls_cert, arguments.tls_key)
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=BACKLOG)
    print(f"listening on {listener.getsockname()[1]}", flush=True)
    SendLoop(listener, arguments.bytes, context).run()


if __name__ == "__main__":
    main()

"""The floor under every delivery, `python -m benchmarks.baselines.send_loop_server`: a bare loop of non-blocking sends.

    python -m benchmarks.baselines.send_loop_server --port 8001 --bytes 1300 [--tls-cert FILE --tls-key FILE]

Every connection that asks for anything is a watcher and gets the head of a stream; every PUT sends the same bytes
to all of them, one `send` each, under TLS after one `SSLObject.write` each. Nothing else happens: no filter, no
cursor, no turn for others, and a watcher that does not read makes it fail. It prints `listening on PORT`.
"""

from __future__ import annotations

import argparse
import select
import socket
import ssl

from benchmarks.watchers.watcher import MARK

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
RECEIVE = 64 * 1024
BACKLOG = 4096


class Tap:
    """One connection."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        if context is not None:
            self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self._shaken = context is None

    def read(self) -> bytes | None:
        """What has arrived; None at the end, nothing while hands are shaken."""
        data = self.sock.recv(RECEIVE)
        if self.tls is None or not data:
            return data or None
        self.incoming.write(data)
        try:
            if not self._shaken:
                self.tls.do_handshake()
                self._shaken = True
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


class Spout:
    def __init__(self, listener: socket.socket, size: int, context: ssl.SSLContext | None) -> None:
        self._listener, self._context = listener, context
        self._data = chunk(size)
        self._poll = select.epoll()
        self._poll.register(listener.fileno(), select.EPOLLIN)
        self._taps: dict[int, Tap] = {}
        self._watching: dict[int, Tap] = {}

    def run(self) -> None:
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._listener.fileno():
                    self._accept()
                else:
                    self._hear(fd)

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._taps[sock.fileno()] = Tap(sock, self._context)
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _hear(self, fd: int) -> None:
        tap = self._taps[fd]
        try:
            data = tap.read()
        except OSError:
            data = None
        if data is None:
            self._poll.unregister(fd)
            self._watching.pop(fd, None)
            self._taps.pop(fd).sock.close()
        elif data.startswith(b"PUT "):
            self._pour()
            tap.write(ANSWER)
        elif data:
            self._watching[fd] = tap
            tap.write(HEAD)

    def _pour(self) -> None:
        data = self._data
        if self._context is None:
            for sock in [tap.sock for tap in self._watching.values()]:
                sock.send(data)
            return
        for sock, tls, outgoing in [(tap.sock, tap.tls, tap.outgoing) for tap in self._watching.values()]:
            assert tls is not None
            tls.write(data)
            sock.send(outgoing.read())


def chunk(size: int) -> bytes:
    """One event of so many bytes on the wire, with one mark."""
    line = b"%x\r\n" % max(1, size - 7)
    content = b"x" * max(1, size - len(line) - 3) + MARK
    return b"%x\r\n%b\r\n" % (len(content), content)


def main() -> None:
    parser = argparse.ArgumentParser(description="A bare loop of sends: the floor of the watch benchmarks.")
    parser.add_argument("--port", type=int, required=True, help="0 picks one and prints it")
    parser.add_argument("--bytes", type=int, required=True, help="of one event on the wire")
    parser.add_argument("--tls-cert", help="PEM file; serves TLS together with --tls-key")
    parser.add_argument("--tls-key")
    arguments = parser.parse_args()
    context = None
    if arguments.tls_cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.tls_cert, arguments.tls_key)
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=BACKLOG)
    print(f"listening on {listener.getsockname()[1]}", flush=True)
    Spout(listener, arguments.bytes, context).run()


if __name__ == "__main__":
    main()

"""The network between processes on this machine: TCP relays whose links a test cuts and joins again.

    network = Network(links)
    cut = network.cut({("node-1", "m0"): "silent"})
    network.join(cut)
    network.close()

It needs no privileges, unlike network namespaces. A separate process forwards, because the threads of a test would
delay the heartbeats of etcd. A link that is cut keeps its connections, as a network that drops packets does:

    silent      nothing passes; what was sent arrives when the link is joined
    replies     requests arrive, replies do not
    refused     its connections are reset, and so are new ones

Each etcd member has one address for all others, so the relay reads the source from the header X-PeerURLs of etcd's
requests. A connection that has not named its source yet stops with any link to its target.
"""

from __future__ import annotations

import contextlib
import json
import re
import selectors
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Final, Literal, NamedTuple

Mode = Literal["silent", "replies", "refused"]
MODES: Final[tuple[Mode, ...]] = ("silent", "replies", "refused")
Ends = tuple[str, str]  # source and target

_CHUNK: Final = 1 << 16
_MOST_HELD: Final = 1 << 20  # bytes that may wait in one direction of a connection
_RESET: Final = struct.pack("ii", 1, 0)  # for SO_LINGER: close sends RST
_SOURCE: Final = re.compile(rb"X-PeerURLs: http://127\.0\.0\.1:(\d+)", re.IGNORECASE)
_STOP_SECONDS: Final = 30  # a bound for a busy machine


class Link(NamedTuple):
    source: str  # empty for an etcd member, whose requests name the source
    target: str
    port: int  # that the source connects to
    to: int  # that the target listens on


class Network:
    """The relay process of some links, and what is cut."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._cuts: dict[int, Mapping[Ends, Mode]] = {}
        self._number = 0
        self._lock = threading.Lock()  # a timer may join what a test has cut
        self._tell(links)

    def cut(self, links: Mapping[Ends, Mode]) -> int:
        """Cut these links until `join` is called with the returned number; cuts may overlap."""
        with self._lock:
            self._number += 1
            self._cuts[self._number] = links
            self._tell_cuts()
            return self._number

    def join(self, number: int) -> None:
        with self._lock:
            if self._cuts.pop(number, None) is not None:
                self._tell_cuts()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=_STOP_SECONDS)

    def _tell_cuts(self) -> None:
        cuts = {ends: mode for links in self._cuts.values() for ends, mode in links.items()}
        self._tell([(*ends, mode) for ends, mode in cuts.items()])

    def _tell(self, message: object) -> None:
        """Send a command to the relay process and wait until it is done."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(message), file=self._process.stdin, flush=True)
        if not self._process.stdout.readline():
            raise RuntimeError("the relays have ended; their message is above")


class _Direction:
    """Bytes on their way from one socket to the other."""

    def __init__(self) -> None:
        self.held = bytearray()
        self.ended = False  # the sender has no more


class _Connection:
    def __init__(self, relays: _Relays, link: Link, client: socket.socket, server: socket.socket) -> None:
        self._relays = relays
        self.link = link
        self.source = link.source
        self._sockets = (client, server)
        self._directions = (_Direction(), _Direction())  # from the client, from the server
        for sock in self._sockets:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def register(self) -> None:
        """Wait until a socket is ready."""
        for number, sock in enumerate(self._sockets):
            out, back = self._directions[number], self._directions[1 - number]
            events = 0
            if self._passes(number) and not out.ended and len(out.held) < _MOST_HELD:
                events |= selectors.EVENT_READ
            if self._passes(1 - number) and back.held:
                events |= selectors.EVENT_WRITE
            self._relays.wait_for(sock, events, self)

    def _passes(self, number: int) -> bool:
        mode = self._relays.mode(self)
        return mode is None or (mode == "replies" and number == 0)

    def ready(self, sock: socket.socket, events: int) -> None:
        number = self._sockets.index(sock)
        try:
            if events & selectors.EVENT_READ:
                self._receive(number)
            if events & selectors.EVENT_WRITE:
                self._send(1 - number)
        except OSError:
            self.close()
            return
        if all(one.ended and not one.held for one in self._directions):
            self.close()
        else:
            self.register()

    def _receive(self, number: int) -> None:
        direction = self._directions[number]
        try:
            data = self._sockets[number].recv(_CHUNK)
        except BlockingIOError:
            return
        if not data:
            direction.ended = True
            if not direction.held:
                self._sockets[1 - number].shutdown(socket.SHUT_WR)
            return
        if not self.source and number == 0 and (found := _SOURCE.search(data)):
            self.source = self._relays.members.get(int(found[1]), "")
        direction.held += data
        if self._passes(number):
            self._send(number)

    def _send(self, number: int) -> None:
        direction, sock = self._directions[number], self._sockets[1 - number]
        with contextlib.suppress(BlockingIOError):
            del direction.held[: sock.send(direction.held)]
        if direction.ended and not direction.held:
            sock.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool = False) -> None:
        for sock in self._sockets:
            self._relays.wait_for(sock, 0, self)
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            sock.close()
        self._relays.connections.discard(self)


class _Relays:
    def __init__(self, commands: IO[str]) -> None:
        self._selector = selectors.DefaultSelector()
        links = [Link(*one) for one in json.loads(commands.readline())]
        self._commands = commands
        self._cuts: dict[Ends, Mode] = {}
        self.members = {link.port: link.target for link in links if not link.source}
        self.connections: set[_Connection] = set()
        self._selector.register(commands, selectors.EVENT_READ)
        for link in links:
            listener = socket.create_server(("127.0.0.1", link.port), backlog=128)
            self._selector.register(listener, selectors.EVENT_READ, link)

    def mode(self, connection: _Connection) -> Mode | None:
        source, target = connection.source, connection.link.target
        if source:  # a cut has no direction: who connects is one thing, who sends another
            return self._cuts.get((source, target)) or self._cuts.get((target, source))
        return next((mode for ends, mode in self._cuts.items() if target in ends), None)

    def wait_for(self, sock: socket.socket, events: int, connection: _Connection) -> None:
        known = self._selector.get_map().get(sock)
        if known is None:
            if events:
                self._selector.register(sock, events, connection)
        elif not events:
            self._selector.unregister(sock)
        elif known.events != events:
            self._selector.modify(sock, events, connection)

    def run(self) -> None:
        print("ready", flush=True)
        while True:
            for key, events in self._selector.select():
                if key.fileobj is self._commands:
                    line = self._commands.readline()
                    if not line:
                        return
                    self._take_cuts(json.loads(line))
                    print("done", flush=True)
                elif isinstance(key.data, Link):
                    assert isinstance(key.fileobj, socket.socket)
                    self._accept(key.fileobj, key.data)
                elif key.data in self.connections:  # another event of this turn may have closed it
                    key.data.ready(key.fileobj, events)

    def _take_cuts(self, cuts: list[tuple[str, str, Mode]]) -> None:
        self._cuts = {(source, target): mode for source, target, mode in cuts}
        for connection in list(self.connections):
            if self.mode(connection) == "refused":
                connection.close(reset=True)
            else:
                connection.register()

    def _accept(self, listener: socket.socket, link: Link) -> None:
        client, _ = listener.accept()
        server = socket.socket()
        connection = _Connection(self, link, client, server)
        self.connections.add(connection)
        # Without waiting: a paused target accepts later. One that does not run makes the sockets ready, with an error.
        server.connect_ex(("127.0.0.1", link.to))
        connection.register()
        if self.mode(connection) == "refused":
            connection.close(reset=True)


if __name__ == "__main__":
    _Relays(sys.stdin).run()

"""Listeners: the sockets of Hypercorn's configuration, and an accept that survives errors of single connections.

`server` opens its listeners here and accepts connections from them. A bind is an address (`host:port`), a Unix socket
(`unix:path`) or an inherited socket (`fd://number`). Each is opened separately, so that an error names it and closes
those opened before.
"""

from __future__ import annotations

import copy
import errno
import os
import socket
import ssl
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import msgspec
from hypercorn.config import Config, SocketTypeError

from rewound.gateway.settings.server_config import Address, host_and_port

UNIX = "unix:"
# Errors without resources to accept: wait, and keep the listener.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Exhausted(Exception):
    """The process or the machine is out of file descriptors or buffers."""


class CannotListen(Exception):
    """A bind cannot be opened; `number` is the errno, 0 if there is none."""

    def __init__(self, bind: str, number: int, why: str, *, unknown_host: bool = False) -> None:
        super().__init__(f"cannot listen on {bind}: {why}")
        self.bind = bind
        self.number = number
        self.why = why
        self.unknown_host = unknown_host


class Listener(msgspec.Struct, frozen=True):
    sock: socket.socket
    tls: ssl.SSLContext | None
    secure: bool  # clients use TLS, terminated here or in the processes that accept them

    @property
    def address(self) -> Address | None:
        """The address; None for a Unix socket."""
        if self.sock.family == socket.AF_UNIX:
            return None
        name = self.sock.getsockname()
        return name[0], name[1]

    @property
    def url(self) -> str:
        scheme, address = "https" if self.secure else "http", self.address
        return f"{scheme}+{UNIX}{self.path}" if address is None else f"{scheme}://{host_and_port(*address)}"

    @property
    def path(self) -> str:
        """The path of a Unix socket; empty for others."""
        return os.fsdecode(self.sock.getsockname()) if self.sock.family == socket.AF_UNIX else ""

    def accept(self, limit: int) -> Iterator[socket.socket]:
        """Accept up to `limit` connections that are already waiting."""
        for _ in range(limit):
            try:
                sock, _address = self.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise Exhausted(str(error)) from error
                continue  # the client left before it was accepted
            sock.setblocking(False)
            yield sock


def open_listeners(config: Config, tls: ssl.SSLContext | None) -> list[Listener]:
    """Open all binds; those of `config.bind` use TLS if there are certificates. Raises CannotListen."""
    if config.ssl_enabled and tls is None:
        raise ValueError("a server with certificates needs a TLS context")
    secure = tls if config.ssl_enabled else None
    wanted = [(bind, secure) for bind in config.bind]
    if secure is not None:
        wanted += [(bind, None) for bind in config.insecure_bind]
    with ExitStack() as on_error:
        listeners = [
            Listener(_listen(config, bind, on_error), context, context is not None)
            for bind, context in wanted
        ]
        on_error.pop_all()
    return listeners


def open_shared_listeners(config: Config, secure: Sequence[str], plain: Sequence[str]) -> list[Listener]:
    """Listeners from which other processes accept, the secure ones first. Raises CannotListen."""
    wanted = [*((bind, True) for bind in secure), *((bind, False) for bind in plain)]
    with ExitStack() as on_error:
        listeners = [Listener(_listen(config, bind, on_error), None, tls) for bind, tls in wanted]
        on_error.pop_all()
    return listeners


def _listen(config: Config, bind: str, on_error: ExitStack) -> socket.socket:
    """Open one bind; `on_error` gets a callback that closes the socket if opening another one fails."""
    sock = _create_socket(config, bind)
    on_error.callback(sock.close)
    # Hypercorn makes all sockets inheritable; our child processes get theirs by number.
    sock.set_inheritable(False)
    if sock.family != socket.AF_UNIX:
        _set_tcp_options(sock)
    try:
        sock.listen(config.backlog)
    except OSError as error:
        raise CannotListen(bind, error.errno or 0, error.strerror or str(error)) from None
    return sock


def _create_socket(config: Config, bind: str) -> socket.socket:
    one = copy.copy(config)
    one.bind, one.insecure_bind, one.quic_bind = [bind], [], []
    try:
        if bind.startswith(UNIX):
            _refuse_path_of_running_server(bind.removeprefix(UNIX))
        created = one.create_sockets()
    except (OSError, UnicodeError, SocketTypeError) as error:
        number = getattr(error, "errno", None) or 0
        unknown_host = isinstance(error, socket.gaierror | UnicodeError)
        why = getattr(error, "strerror", None) or str(error)
        # Hypercorn leaves the socket that it could not bind to the garbage collector: it is freed with the traceback.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            error.__traceback__ = None
        raise CannotListen(bind, number, why, unknown_host=unknown_host) from None
    (sock,) = created.secure_sockets + created.insecure_sockets
    return sock


def _refuse_path_of_running_server(path: str) -> None:
    """Refuse the path of a running server: Hypercorn would replace any socket that it finds there."""
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(path) == 0:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _set_tcp_options(sock: socket.socket) -> None:
    """Set options that connections inherit. TCP keepalive detects a vanished peer after about two minutes."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)

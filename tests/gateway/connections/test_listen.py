"""Listeners: addresses, Unix sockets and inherited sockets; if one cannot be bound, none stays open."""

from __future__ import annotations

import errno
import gc
import os
import socket
import ssl
import stat
import warnings
from pathlib import Path

import pytest

from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.connections.listen import CannotListen, Listener, open_listeners
from tests.cases import cases
from tests.gateway.connections.http_server import authority


def plain(bind: str, **changed: object) -> Listener:
    (listener,) = open_listeners(ServerConfig.from_mapping({"bind": bind, **changed}), None)
    return listener


def connects(listener: Listener) -> bool:
    with socket.socket(listener.sock.family) as client:
        return client.connect_ex(listener.sock.getsockname()) == 0


@cases("host", ["127.0.0.1", "::1", "[::1]"])
def test_a_listener_gets_a_free_port_of_its_address(host: str) -> None:
    listener = plain(f"{host}:0")
    with listener.sock:
        assert listener.address is not None and listener.tls is None
        assert listener.address[0] == host.strip("[]")
        assert listener.address[1] != 0
        assert connects(listener)
        (accepted,) = listener.accept(8)
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert not accepted.getblocking()
        assert not listener.sock.get_inheritable()


def test_certificates_make_the_first_binds_secure() -> None:
    context = authority().server_context()
    listeners = open_listeners(authority().config(), context)
    for listener in listeners:
        listener.sock.close()
    assert [listener.tls for listener in listeners] == [context, None]


def test_a_unix_socket_has_a_path_and_the_mode_of_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "rewound.sock"
    listener = plain(f"unix:{path}", umask=0o077)
    with listener.sock:
        assert (listener.address, listener.path, listener.url) == (None, str(path), f"http+unix:{path}")
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert connects(listener)
        (accepted,) = listener.accept(8)
        accepted.close()


def test_unix_socket_of_a_stopped_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "rewound.sock"
    plain(f"unix:{path}").sock.close()
    listener = plain(f"unix:{path}")
    with listener.sock:
        assert connects(listener)


def test_a_unix_socket_of_a_running_server_stays(tmp_path: Path) -> None:
    first = plain(f"unix:{tmp_path}/rewound.sock")
    with first.sock:
        with pytest.raises(CannotListen) as refused:
            plain(f"unix:{tmp_path}/rewound.sock")
        assert refused.value.number == errno.EADDRINUSE
        assert connects(first)


def test_an_inherited_socket_is_served_as_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as inherited:
        address = inherited.getsockname()
        listener = plain(f"fd://{os.dup(inherited.fileno())}")
    with listener.sock:
        assert listener.address == address
        assert connects(listener)
        (accepted,) = listener.accept(8)
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_inherited_datagram_socket_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inherited, pytest.raises(CannotListen):
        plain(f"fd://{os.dup(inherited.fileno())}")


def test_a_second_address_that_is_in_use_closes_the_first_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        bind = "{}:{}".format(*taken.getsockname())
        assert _failure(bind, authority().server_context()) == (bind, errno.EADDRINUSE)
        gc.collect()
    assert unclosed == []


def _failure(insecure: str, tls: ssl.SSLContext) -> tuple[str, int] | None:
    try:
        open_listeners(authority().config(insecure_bind=insecure), tls)
    except CannotListen as error:
        return error.bind, error.number
    return None


@cases(
    ("bind", "unknown_host"),
    [("no..host:0", True), ("unix:/no/such/folder/socket", False), ("192.0.2.1:0", False)],
)
def test_a_bind_that_cannot_be_opened_is_named(bind: str, unknown_host: bool) -> None:
    with pytest.raises(CannotListen) as refused:
        plain(bind)
    assert (refused.value.bind, refused.value.unknown_host) == (bind, unknown_host)


def test_certificates_need_a_tls_context() -> None:
    with pytest.raises(ValueError, match="TLS context"):
        open_listeners(authority().config(), None)

"""Listeners: addresses of both families, and no socket left open when one address cannot be bound."""

from __future__ import annotations

import errno
import gc
import socket
import ssl
import warnings

import pytest

from gateway.connections.listen import Address, open_listeners
from tests.cases import cases


def connects(address: Address) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as client:
        return client.connect_ex(address) == 0


@cases("host", ["127.0.0.1", "::1", "[::1]"])
def test_a_listener_gets_a_free_port_of_its_address(host: str) -> None:
    none, listener = open_listeners(None, (host, 0), None)
    assert none is None
    assert listener is not None
    with listener.sock:
        assert listener.address[0] == host.strip("[]")
        assert listener.address[1] != 0
        assert connects(listener.address)
        (accepted,) = listener.accept(8)
        accepted.close()


def test_a_second_address_that_is_in_use_closes_the_first_listener() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with socket.create_server(("127.0.0.1", 0)) as taken, warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        assert _bind_errno(taken.getsockname(), tls) == errno.EADDRINUSE
        gc.collect()
    assert unclosed == []


def _bind_errno(insecure: Address, tls: ssl.SSLContext) -> int | None:
    try:
        open_listeners(("127.0.0.1", 0), insecure, tls)
    except OSError as error:
        return error.errno
    return None


def test_a_secure_address_needs_a_tls_context() -> None:
    with pytest.raises(ValueError, match="TLS context"):
        open_listeners(("127.0.0.1", 0), None, None)

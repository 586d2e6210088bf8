"""Tests cut network links: what passes during each kind of cut, and what arrives after it.

Members of a real etcd that are cut off have no leader; the others have one.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trio

from tests.etcd_members import EtcdMembers, needs_etcd
from tests.network import Link, Network
from tests.ports import reserve_port

SECONDS = 30  # a bound for a busy machine


@contextmanager
def ends(
    source: str = "a", first: bytes = b""
) -> Iterator[tuple[Network, socket.socket, socket.socket, int]]:
    """A network with one link from `source` to b, and both sockets of a connection through it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = reserve_port()
        link = Link(source, "b", port, listener.getsockname()[1])
        other = Link("", "a", reserve_port(), reserve_port())
        with closing(Network([link, other])) as network:
            listener.settimeout(SECONDS)
            client = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
            server, _ = listener.accept()
            server.settimeout(SECONDS)
            with client, server:
                if first:
                    named = first % other.port
                    client.sendall(named)
                    assert server.recv(1000) == named
                yield network, client, server, port


def test_silent_link_holds_both_directions_until_it_is_joined() -> None:
    with ends() as (network, client, server, _):
        cut = network.cut({("a", "b"): "silent"})
        client.sendall(b"request")
        server.sendall(b"reply")
        network.join(network.cut({}))  # the relays had their turn
        for one in (client, server):
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(10)
            one.settimeout(SECONDS)
        network.join(cut)
        assert server.recv(10) == b"request"
        assert client.recv(10) == b"reply"


def test_link_without_replies_passes_requests() -> None:
    with ends() as (network, client, server, _):
        cut = network.cut({("b", "a"): "replies"})  # a cut has no direction
        server.sendall(b"reply")
        client.sendall(b"request")
        assert server.recv(10) == b"request"
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(10)
        client.settimeout(SECONDS)
        network.join(cut)
        assert client.recv(10) == b"reply"


def test_refused_link_resets_connections_and_new_ones() -> None:
    with ends() as (network, client, server, port):
        cut = network.cut({("a", "b"): "refused"})
        with pytest.raises(ConnectionResetError):
            client.recv(10)
        with pytest.raises(ConnectionResetError):
            server.recv(10)
        with (
            pytest.raises(ConnectionResetError),  # while it connects or when it reads
            socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as again,
        ):
            again.recv(10)
        network.join(cut)


def test_member_of_etcd_names_itself() -> None:
    with ends("", b"GET / HTTP/1.1\r\nX-PeerURLs: http://127.0.0.1:%d\r\n\r\n") as (
        network,
        client,
        server,
        _,
    ):
        network.cut({("c", "b"): "silent"})
        client.sendall(b"of a")
        assert server.recv(10) == b"of a"
        network.cut({("a", "b"): "refused"})
        with pytest.raises(ConnectionResetError):
            client.recv(10)


def test_unnamed_connection_stops_with_any_link_of_its_target() -> None:
    with ends("") as (network, client, _, _):
        network.cut({("c", "b"): "refused"})
        with pytest.raises(ConnectionResetError):
            client.recv(10)


@needs_etcd
def test_leader_of_etcd_that_is_cut_off_is_the_only_one_without_a_quorum(tmp_path: Path) -> None:
    members = EtcdMembers(3, tmp_path, relayed=True)
    links = [Link("", one.name, one.peer_port, one.own_peer_port) for one in members.members]
    with closing(Network(links)) as network:
        try:
            members.start()
            leader = trio.run(members.leader)
            others = [one for one in members.members if one is not leader]
            cut = network.cut({(leader.name, one.name): "silent" for one in others})
            wait_until_healthy(members, [one.name for one in others])
            network.join(cut)
            wait_until_healthy(members, [one.name for one in members.members])
        finally:
            members.kill()


def wait_until_healthy(members: EtcdMembers, names: list[str]) -> None:
    """Wait until exactly these members have a leader."""
    deadline = time.monotonic() + SECONDS
    while (found := [one.name for one in members.members if one.healthy()]) != names:
        assert time.monotonic() < deadline, f"{found} are healthy"
        time.sleep(0.05)

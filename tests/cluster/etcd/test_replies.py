"""How errors of etcd are interpreted, including those that a real member cannot be made to send."""

from __future__ import annotations

import pytest
import trio

from rewound.actors.etcd.api import Compacted, EtcdFull, EtcdRefused, EtcdUnavailable, LeaseGone
from rewound.cluster.etcd.client import EtcdClient
from rewound.cluster.etcd.replies import Lost, NoAuthentication, NotDone, TokenInvalid, cancelled, failure
from tests.cases import cases
from tests.etcd_members import running

TIMED_OUT = "etcdserver: request timed out"
NO_SPACE = "etcdserver: mvcc: database space exceeded"


@cases(
    "code, message, kind",
    [
        (14, "etcdserver: no leader", NotDone),
        (9, "etcdserver: not leader", NotDone),
        (8, "etcdserver: too many requests", NotDone),
        (2, "raft proposal dropped", NotDone),
        (14, "etcdserver: rpc not supported for learner", NotDone),
        (16, "etcdserver: invalid auth token", TokenInvalid),
        (3, "etcdserver: revision of auth store is old", TokenInvalid),
        (9, "etcdserver: authentication is not enabled", NoAuthentication),
        (14, TIMED_OUT, Lost),
        (14, f"{TIMED_OUT}, possibly due to previous leader failure", Lost),
        (14, f"{TIMED_OUT}, possibly due to connection lost", Lost),
        (14, "etcdserver: leader changed", Lost),
        (14, "etcdserver: server stopped", Lost),
        (14, "transport is closing", Lost),
        (1, "context canceled", Lost),
        (2, "anything else", Lost),
        (4, "context deadline exceeded", Lost),
        (13, "internal", Lost),
        (11, "etcdserver: mvcc: required revision has been compacted", Compacted),
        (11, "etcdserver: mvcc: required revision is a future revision", EtcdRefused),
        (5, "etcdserver: requested lease not found", LeaseGone),
        (8, NO_SPACE, EtcdFull),
        (7, "etcdserver: permission denied", EtcdRefused),
        (15, "etcdserver: corrupt cluster", EtcdRefused),
    ],
)
def test_errors_are_classified_by_code_and_text(code: int, message: str, kind: type[Exception]) -> None:
    assert type(failure(code, message)) is kind


def test_refusals_say_what_to_do() -> None:
    assert str(failure(8, NO_SPACE)) == (
        "etcd refused: mvcc: database space exceeded; compact it (etcdctl compact, up to the ModRevision of the key "
        "head) and defragment its members (etcdctl defrag), or start them with a larger --quota-backend-bytes; then "
        "etcdctl alarm disarm"
    )


@cases(
    "reason, kind",
    [
        ("rpc error: code = PermissionDenied desc = etcdserver: permission denied", EtcdRefused),
        ("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token", TokenInvalid),
        ("rpc error: code = Unavailable desc = etcdserver: no leader", NotDone),
        ("something else", Lost),
        ("", Lost),
    ],
)
def test_reasons_of_cancelled_watches(reason: str, kind: type[Exception]) -> None:
    assert type(cancelled(reason)) is kind


async def test_another_server_at_the_endpoint() -> None:
    """It speaks HTTP/1.1."""

    async def serve(client: trio.SocketStream) -> None:
        async with client:
            await client.receive_some()
            await client.send_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nNot Found")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        async with running(EtcdClient([url], seconds=1.0)) as client:
            text = "it does not speak HTTP/2: is it a client URL of etcd"
            with pytest.raises(EtcdUnavailable, match=text):
                await client.range(b"a")
            with pytest.raises(EtcdUnavailable, match=text):
                async with client.watch(b"a", b"", 0):
                    pass
        nursery.cancel_scope.cancel()

"""Users with passwords, and TLS with client certificates."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from rewound.actors.certificates.trust import verifying
from rewound.actors.etcd.api import EtcdRefused, EtcdUnavailable, Put
from rewound.cluster.etcd.client import EtcdClient
from tests.cases import checking
from tests.etcd_members import PASSWORD, EtcdMembers, etcd_members, running
from tests.issuers import issuer


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdMembers]:
    with etcd_members(tls=True, users=True) as members:
        members.post("/v3/auth/user/add", {"name": "joe", "password": "joe's"}, token(members))
        yield members


def token(cluster: EtcdMembers) -> str:
    return str(cluster.post("/v3/auth/authenticate", {"name": "root", "password": PASSWORD})["token"])


async def test_token_is_renewed(cluster: EtcdMembers) -> None:
    """As etcd drops them: after some minutes, when a member starts, and when authentication is turned off."""
    async with cluster.running_client() as client:
        first = await client.txn([], [Put(b"/a", b"")])
        cluster.post("/v3/auth/disable", {}, token(cluster))
        assert (await client.range(b"/a")).revision == first.revision
        cluster.post("/v3/auth/enable", {})
        assert (await client.txn([], [Put(b"/a", b"")])).revision == first.revision + 1
        cluster.post("/v3/auth/disable", {}, token(cluster))
        cluster.post("/v3/auth/enable", {})
        async with client.watch(b"/a", b"", first.revision) as responses:
            await anext(responses)
            assert len((await anext(responses)).events) == 2
        lease = await client.grant(60)
        cluster.post("/v3/auth/disable", {}, token(cluster))
        cluster.post("/v3/auth/enable", {})
        await client.revoke(lease)
        assert client.statistics().failovers == 0


async def test_users_that_are_refused(cluster: EtcdMembers) -> None:
    tls = cluster.tls_context()
    no_rights = "etcd refused: permission denied; name a user who may read and write the prefix"
    cases = (
        (no_rights, "joe", "joe's"),
        (no_rights, "", ""),
        ("invalid user ID or password; correct the user and the password", "joe", "root's"),
    )
    with checking() as case:
        for text, user, password in cases:
            async with running(EtcdClient(cluster.urls, tls=tls, user=user, password=password)) as client:
                with case((user, password)):
                    with pytest.raises(EtcdRefused, match=text):
                        await client.range(b"/a")
                    with pytest.raises(EtcdRefused, match=text):
                        async with client.watch(b"/a", b"", 0):
                            pass


async def test_certificates_that_are_refused(cluster: EtcdMembers) -> None:
    """A client without one, and a member with one of another CA."""
    assert cluster.ca_file is not None
    without, other = (verifying(file.read_bytes()) for file in (cluster.ca_file, issuer("others").file))
    cases = {"TLS failed": without, "its certificate is not valid: ": other}
    with checking() as case:
        for text, tls in cases.items():
            with case(text):
                assert text in await refusal(cluster, tls, text)


async def refusal(cluster: EtcdMembers, tls: ssl.SSLContext, expected: str) -> str:
    """Why a call fails. A busy machine needs longer for a handshake than the client has at first."""
    error = ""
    for seconds in (1, 8, 60):
        async with running(EtcdClient(cluster.urls, tls=tls, seconds=seconds)) as client:
            with pytest.raises(EtcdUnavailable) as failure:
                await client.range(b"/a")
        error = str(failure.value)
        if expected in error:
            break
    return error


async def test_certificate_names_the_user(cluster: EtcdMembers) -> None:
    """Its common name is an etcd user, who needs no password."""
    assert cluster.ca_file is not None
    root, joe = (verifying(cluster.ca_file.read_bytes()) for _ in range(2))
    root.load_cert_chain(issuer("etcd").leaf("root"))
    joe.load_cert_chain(issuer("etcd").leaf("joe"))
    async with running(EtcdClient(cluster.urls, tls=root)) as client:
        assert (await client.txn([], [Put(b"/b", b"")])).succeeded
    async with running(EtcdClient(cluster.urls, tls=joe)) as client:
        with pytest.raises(EtcdRefused, match="permission denied"):
            await client.txn([], [Put(b"/b", b"")])

"""Whole TLS handshakes in memory between the server's context and real clients."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from rewound.actors.access.authentication.authenticate import user_of_certificate
from rewound.actors.certificates.pki import CertificateError, Certificates, prepare, write_atomically
from rewound.gateway.connections.config import ServerConfig

NAMES = ("localhost",)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return prepare(tmp_path_factory.mktemp("ours") / "pki", NAMES, time.time())


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return prepare(tmp_path_factory.mktemp("foreign") / "pki", NAMES, time.time())


def server_context(certificate: Path, key: Path, client_authorities: list[Path]) -> ssl.SSLContext:
    config = ServerConfig()
    config.certfile, config.keyfile = str(certificate), str(key)
    config.client_authorities = client_authorities
    context = config.create_ssl_context()
    assert context is not None
    return context


def serving(ours: Certificates, *more: Path) -> ssl.SSLContext:
    return server_context(ours.certificate("server"), ours.key("server"), [ours.authority, *more])


def client(ours: Certificates, shows: Certificates | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ours.authority)
    if shows is not None:
        context.load_cert_chain(shows.certificate("admin"), shows.key("admin"))
    return context


def shaken(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The server's end after a full handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting: list[Any] = [other, one]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
    return one


def test_client_certificate_is_optional(ours: Certificates) -> None:
    assert not shaken(serving(ours), client(ours)).getpeercert()


def test_admin_certificate_names_the_admin(ours: Certificates) -> None:
    certificate = shaken(serving(ours), client(ours, ours)).getpeercert()
    assert certificate is not None
    user = user_of_certificate(certificate)
    assert user is not None
    assert (user.name, user.groups) == ("admin", ("system:masters",))


def test_client_certificate_of_an_unknown_ca_fails_the_handshake(
    ours: Certificates, foreign: Certificates
) -> None:
    with pytest.raises(ssl.SSLError):
        shaken(serving(ours), client(ours, foreign))


def test_given_client_ca_is_trusted_in_addition_to_our_own(ours: Certificates, foreign: Certificates) -> None:
    context = serving(ours, foreign.authority)
    assert shaken(context, client(ours, foreign)).getpeercert()
    assert shaken(context, client(ours, ours)).getpeercert()


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), ([], None)]
)
def test_alpn_selects_the_protocol(ours: Certificates, offered: list[str], chosen: str | None) -> None:
    context = client(ours)
    if offered:
        context.set_alpn_protocols(offered)
    assert shaken(serving(ours), context).selected_alpn_protocol() == chosen


def test_tls_1_2_uses_ciphers_that_http2_allows(ours: Certificates) -> None:
    context = client(ours)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    cipher = shaken(serving(ours), context).cipher()
    assert cipher is not None
    assert cipher[0].startswith("ECDHE-")


def test_tls_older_than_1_2_is_refused(ours: Certificates) -> None:
    assert serving(ours).minimum_version == ssl.TLSVersion.TLSv1_2


def test_key_of_another_certificate_is_an_error(ours: Certificates) -> None:
    with pytest.raises(CertificateError, match="cannot be used with the key"):
        server_context(ours.certificate("server"), ours.key("admin"), [])


def test_missing_certificate_file_is_an_error(ours: Certificates, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="nowhere"):
        server_context(tmp_path / "nowhere", ours.key("server"), [])
    with pytest.raises(CertificateError, match="nowhere"):
        serving(ours, tmp_path / "nowhere")


def test_client_ca_file_without_a_certificate_is_an_error(ours: Certificates, tmp_path: Path) -> None:
    write_atomically(tmp_path / "empty.pem", b"nothing\n", 0o644)
    with pytest.raises(CertificateError, match="holds no PEM certificate"):
        serving(ours, tmp_path / "empty.pem")


def test_key_with_a_password_is_an_error_without_a_prompt(ours: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(ours.key("server").read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    write_atomically(tmp_path / "locked.key", locked, 0o600)
    with pytest.raises(CertificateError, match="encrypted with a password"):
        server_context(ours.certificate("server"), tmp_path / "locked.key", [])

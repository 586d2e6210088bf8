"""The CAs of controllers: the data folder's own or an operator's, prepared outside the event loop."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

from rewound.actors.certificates.pki import CertificateError, Certificates
from rewound.actors.certificates.signing import Authorities, AuthorityFiles
from tests.actors.certificates.shared_folder import own_certificates

SIGNER = "cluster.io/api-server-client"


def own() -> Certificates:
    return own_certificates("cluster")


async def test_own_ca_signs_and_verifies_the_server() -> None:
    authorities = Authorities(own)
    signing = await authorities.of_signer(SIGNER)
    assert signing.certificate == own().authority.read_bytes()
    assert signing.key == own().key("ca").read_bytes()
    assert await authorities.server_certificate() == own().authority.read_bytes()


async def test_own_ca_is_prepared_once_and_in_a_thread() -> None:
    threads = []

    def prepare() -> Certificates:
        threads.append(threading.current_thread())
        return own()

    authorities = Authorities(prepare)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(authorities.of_signer, SIGNER)
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_failed_preparation_is_repeated_with_the_next_use() -> None:
    attempts = []

    def prepare() -> Certificates:
        attempts.append(1)
        if len(attempts) == 1:
            raise CertificateError("no space")
        return own()

    authorities = Authorities(prepare)
    with pytest.raises(CertificateError):
        await authorities.of_signer(SIGNER)
    await authorities.of_signer(SIGNER)


async def test_files_of_an_operator_take_precedence_and_are_read_again(tmp_path: Path) -> None:
    certificate, key, serving = tmp_path / "ca.crt", tmp_path / "ca.key", tmp_path / "serving.crt"
    certificate.write_text("one"), key.write_text("secret"), serving.write_text("serving")
    authorities = Authorities(own, {SIGNER: AuthorityFiles(certificate, key)}, serving)
    assert (await authorities.of_signer(SIGNER)).certificate == b"one"
    certificate.write_text("two")
    assert (await authorities.of_signer(SIGNER)).certificate == b"two"
    other = await authorities.of_signer("cluster.io/node-agent-serving")
    assert other.certificate == own().authority.read_bytes()
    assert await authorities.server_certificate() == b"serving"


async def test_key_is_in_no_representation_and_missing_file_is_named(tmp_path: Path) -> None:
    authorities = Authorities(own, {SIGNER: AuthorityFiles(tmp_path / "ca.crt", tmp_path / "ca.key")})
    assert "PRIVATE KEY" not in repr(await authorities.of_signer("other.io/signer"))
    with pytest.raises(CertificateError, match=r"ca\.crt"):
        await authorities.of_signer(SIGNER)

"""The TLS of a running server: own certificates are renewed in time, the files of flags are followed."""

from __future__ import annotations

import shutil
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rewound.actors.names import CLUSTER
from rewound.actors.runtime.followed_file import CHECK_SECONDS
from rewound.gateway.connections.config import server_config
from rewound.gateway.settings.settings import Settings
from rewound.server.secure_port import RenewedTls, Tls, expiry, prepare_tls
from tests.actors.certificates.shared_folder import own_certificates
from tests.gateway.connections.http_server import authority
from tests.server.test_flags import refusal

DAY = 86400.0


def prepared(settings: Settings, replace: Callable[[Tls], None], now: Callable[[], float]) -> RenewedTls:
    config = server_config(settings)
    tls = prepare_tls(settings, CLUSTER, config, now())
    assert tls is not None
    return RenewedTls(settings, CLUSTER, config, tls, replace, now)


async def test_own_certificates_are_renewed_a_month_before_they_end(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    start = trio.current_time()
    began = time.time() - start
    replaced = trio.Event()
    settings = Settings(data_dir=tmp_path, tls_san="api.example.com,10.9.8.7")
    renewed = prepared(settings, lambda _: replaced.set(), lambda: began + trio.current_time())
    first = (tmp_path / "pki" / "server.crt").read_bytes()
    authority_before = (tmp_path / "pki" / "ca.crt").read_bytes()
    assert abs(renewed.expires() - began - start - 365 * DAY) < DAY
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renewed.run)
        await replaced.wait()
        nursery.cancel_scope.cancel()
    assert 334 * DAY < trio.current_time() - start < 337 * DAY
    assert renewed.expires() > began + start + 690 * DAY
    assert (tmp_path / "pki" / "server.crt").read_bytes() != first
    assert (tmp_path / "pki" / "ca.crt").read_bytes() == authority_before
    assert names_of(tmp_path / "pki" / "server.crt") >= {"api.example.com", "10.9.8.7"}


def names_of(path: Path) -> set[str]:
    from cryptography import x509

    read = x509.load_pem_x509_certificate(path.read_bytes())
    extension = read.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {str(one.value) for one in extension.value}


async def test_files_of_flags_are_put_in_force_when_they_change_and_are_right(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(own_certificates("cluster").folder, tmp_path / "pki")
    certificate, key, client_ca = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    own = tmp_path / "pki"
    for target, source in (
        (certificate, own / "server.crt"),
        (key, own / "server.key"),
        (client_ca, own / "ca.crt"),
    ):
        shutil.copy(source, target)
    settings = Settings(
        data_dir=tmp_path, tls_cert_file=certificate, tls_private_key_file=key, client_ca_file=client_ca
    )
    contexts: list[ssl.SSLContext] = []
    renewed = prepared(settings, lambda tls: contexts.append(tls.context), time.time)
    files = renewed.files
    assert files is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.run)
        first_end = renewed.expires()
        shutil.copy(authority().certificate, certificate)
        await until(lambda: files.is_outdated)  # the key is that of another certificate
        assert contexts == [] and "has changed and is not used" in caplog.text
        shutil.copy(authority().key, key)
        await until(lambda: bool(contexts))
        assert not files.is_outdated and renewed.expires() < first_end
        client_ca.write_text(client_ca.read_text() + authority().ca.read_text())
        await until(lambda: len(contexts) == 2)
        assert {one["subject"][0][0][1] for one in contexts[1].get_ca_certs()} >= {"test authority"}
        nursery.cancel_scope.cancel()
    assert files.counts == {"success": 2, "failure": 1}


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(10_000 * DAY):  # virtual time, which goes on while a thread works
        while not holds():
            await trio.sleep(CHECK_SECONDS)


def test_the_end_of_any_certificate_can_be_read() -> None:
    leaf = ssl.PEM_cert_to_DER_cert(authority().certificate.read_text())
    assert abs(expiry(leaf) - time.time() - DAY) < 3600
    for wrong in (b"", b"0", leaf[:40], leaf[::-1]):
        assert expiry(wrong) == 0.0


def test_names_that_no_certificate_can_have_are_refused() -> None:
    assert "is neither a host name nor an IP address" in refusal("--tls-san=a_b", "--tls-san=c")
    own = own_certificates("cluster")
    given = (f"--tls-cert-file={own.certificate('server')}", f"--tls-private-key-file={own.key('server')}")
    assert "has no effect with --tls-cert-file" in refusal("--tls-san=a", *given)

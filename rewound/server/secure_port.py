"""The secure port: its certificates, its TLS context, and the kubeconfig of the administrator.

The certificates are those of the data folder (`actors.certificates`); an operator may give another serving
certificate and further client CAs. `ApiServer` calls `prepare_tls` before it listens and `write_admin_kubeconfig` when
the port is known. While it serves, `RenewedTls` renews our own certificates before they end, and follows the operator's
files. Connections keep the certificates with which they began.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
import trio

from rewound.actors.allocation.ranges import first_address
from rewound.actors.certificates.kubeconfig import server_url, write_kubeconfig
from rewound.actors.certificates.names import serving_names
from rewound.actors.certificates.pki import CertificateError, Certificates, prepare
from rewound.actors.certificates.pools import TrustPools
from rewound.actors.certificates.signing import Authorities
from rewound.actors.kinds.values.pem import blocks_of
from rewound.actors.names import Names
from rewound.actors.runtime.followed_file import FollowedFiles
from rewound.actors.runtime.threads import run_in_thread
from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.settings.settings import Settings

logger = logging.getLogger(__name__)

SHARED_CA = (
    "a CA in --requestheader-client-ca-file also issues certificates of ordinary clients: each of them can name "
    "any user in its headers; give the proxies another CA, or their names with --requestheader-allowed-names"
)


class Tls(msgspec.Struct, frozen=True):
    context: ssl.SSLContext
    certificates: Certificates
    pools: (
        TrustPools | None
    )  # None without an authenticating proxy: all client certificates are of ordinary clients


def prepare_certificates(settings: Settings, names: Names, now: float | None = None) -> Certificates:
    """The certificates of the data folder. May start a process that creates them."""
    service_address = first_address(settings.service_ranges)
    advertised = (settings.advertise_address,) if settings.advertise_address else ()
    hosts = (*settings.secure_hosts, *advertised, *settings.tls_names)
    wanted = serving_names(names, hosts, service_address)
    return prepare(settings.pki, wanted, time.time() if now is None else now)


def signing_authorities(settings: Settings, names: Names) -> Authorities:
    """The CA certificates and keys for controllers, which need them even without a secure port."""
    return Authorities(
        partial(prepare_certificates, settings, names), settings.signing.files(names), settings.tls_cert_file
    )


def prepare_tls(
    settings: Settings, names: Names, config: ServerConfig, now: float | None = None
) -> Tls | None:
    """Put the certificate and the client CAs into `config`; returns None if the secure port is off."""
    if not settings.secure_binds:
        return None
    return make_tls(settings, prepare_certificates(settings, names, now), config)


def make_tls(settings: Settings, certificates: Certificates, config: ServerConfig) -> Tls:
    """Raises CertificateError."""
    client_authorities = [certificates.authority]
    if settings.client_ca_file:
        client_authorities.append(settings.client_ca_file)
    proxy_authority = settings.request_headers.requestheader_client_ca_file
    certificate = settings.tls_cert_file or certificates.certificate("server")
    key = settings.tls_private_key_file or certificates.key("server")
    config.certfile, config.keyfile = str(certificate), str(key)
    config.client_authorities = client_authorities
    pools = None
    if proxy_authority is not None:
        config.client_authorities = [*client_authorities, proxy_authority]
        config.tickets = False  # a resumed session would not say which CA issued the certificate
        pools = TrustPools(client_authorities, proxy_authority)
    if pools is not None and pools.overlap and not settings.request_headers.requestheader_allowed_names:
        logger.warning(SHARED_CA)
    context = config.create_ssl_context()
    assert context is not None, "it has a certificate"
    return Tls(context, certificates, pools)


def write_admin_kubeconfig(settings: Settings, tls: Tls, port: int) -> None:
    authority = settings.tls_cert_file or tls.certificates.authority
    url = server_url(settings.secure_hosts[0], port)
    write_kubeconfig(settings.kubeconfig, url, authority, tls.certificates)


# How often our own certificates are checked; they are renewed a month before they end (`pki.RENEW_BEFORE`).
CHECK_SECONDS: Final = 86400.0


class RenewedTls:
    """Replaces the TLS of a running server when our own certificates have been renewed, or files of flags changed."""

    def __init__(
        self,
        settings: Settings,
        names: Names,
        config: ServerConfig,
        tls: Tls,
        replace: Callable[[Tls], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._names, self._config, self._now = settings, names, config, now
        self._replace = replace
        self._use(tls)
        given = {
            "--tls-cert-file": settings.tls_cert_file,
            "--tls-private-key-file": settings.tls_private_key_file,
            "--client-ca-file": settings.client_ca_file,
            "--requestheader-client-ca-file": settings.request_headers.requestheader_client_ca_file,
        }
        paths = {flag: path for flag, path in given.items() if path is not None}
        # Together: a certificate and its key are one change, and so are a certificate and the CA of its clients.
        self.files = FollowedFiles(",".join(paths), list(paths.values()), self._read) if paths else None

    def expires(self) -> float:
        """When the serving certificate ends, in seconds since 1970; 0 if that cannot be read."""
        return self._expires

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            if self.files is not None:
                nursery.start_soon(self.files.run)
            while True:
                await trio.sleep(CHECK_SECONDS)
                await self._renew()

    async def _renew(self) -> None:
        settings, names = self._settings, self._names
        try:
            certificates = await run_in_thread(prepare_certificates, settings, names, self._now())
            if _contents(certificates) == self._used:
                return
            self._put_in_force(await run_in_thread(self._prepare))
        except (CertificateError, ValueError, OSError) as error:
            logger.error(
                "the certificates of the data folder cannot be renewed, next try in a day: %s", error
            )
        else:
            logger.info("the certificates of the data folder were renewed, and are in force")

    def _read(self, _contents: Sequence[bytes]) -> Callable[[], None]:
        return partial(self._put_in_force, self._prepare())

    def _prepare(self) -> Tls:
        """In a thread. Raises ValueError."""
        try:
            tls = make_tls(self._settings, Certificates(self._settings.pki, ()), self._config)
        except CertificateError as error:
            raise ValueError(str(error)) from error
        return tls

    def _put_in_force(self, tls: Tls) -> None:
        self._use(tls)
        self._replace(tls)

    def _use(self, tls: Tls) -> None:
        self._used = _contents(tls.certificates)
        serving = (self._settings.tls_cert_file or tls.certificates.certificate("server")).read_text(
            "latin-1"
        )
        self._expires = expiry(
            next((one.content for one in blocks_of(serving) if one.kind == "CERTIFICATE"), b"")
        )


def _contents(own: Certificates) -> list[bytes]:
    return [own.certificate(name).read_bytes() for name in ("ca", "server", "admin")]


def expiry(certificate: bytes) -> float:
    """When a certificate (DER) ends, in seconds since 1970; 0 if it cannot be read.

    The certificate library would need more memory than the rest of the server's TLS.
    """
    try:
        at, _, _ = _item(certificate, 0)  # Certificate
        at, _, _ = _item(certificate, at)  # TBSCertificate
        if certificate[at] == 0xA0:  # the version, which old certificates do not have
            _, at, _ = _item(certificate, at)
        for _ in range(3):  # serialNumber, signature, issuer
            _, at, _ = _item(certificate, at)
        at, _, _ = _item(certificate, at)  # validity
        _, at, _ = _item(certificate, at)  # notBefore
        start, end, tag = _item(certificate, at)
        text = certificate[start:end].decode("ascii")
        if tag == 0x17:  # UTCTime, with two digits of the year
            text = f"{'19' if text[:2] >= '50' else '20'}{text}"
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except (IndexError, ValueError):
        return 0.0


def _item(der: bytes, at: int) -> tuple[int, int, int]:
    """The content of the item at this place, from and to, and its tag."""
    tag, length, start = der[at], der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    return start, start + length, tag

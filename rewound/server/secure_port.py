"""The secure port: its certificates, its TLS context, and the kubeconfig of the administrator.

The certificates are those of the data folder (`actors.certificates`); an operator may give another serving
certificate and further client CAs. `ApiServer` calls `prepare_tls` before it listens and `write_admin_kubeconfig` when
the port is known.
"""

from __future__ import annotations

import logging
import ssl
import time
from dataclasses import dataclass
from functools import partial

from rewound.actors.allocation.ranges import first_address
from rewound.actors.certificates.kubeconfig import server_url, write_kubeconfig
from rewound.actors.certificates.names import serving_names
from rewound.actors.certificates.pki import Certificates, prepare
from rewound.actors.certificates.pools import TrustPools
from rewound.actors.certificates.signing import Authorities
from rewound.actors.names import Names
from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.settings.settings import Settings

logger = logging.getLogger(__name__)

SHARED_CA = (
    "a CA in --requestheader-client-ca-file also issues certificates of ordinary clients: each of them can name "
    "any user in its headers; give the proxies another CA, or their names with --requestheader-allowed-names"
)


@dataclass(frozen=True, slots=True)
class Tls:
    context: ssl.SSLContext
    certificates: Certificates
    pools: (
        TrustPools | None
    )  # None without an authenticating proxy: all client certificates are of ordinary clients


def prepare_certificates(settings: Settings, names: Names) -> Certificates:
    """The certificates of the data folder. May start a process that creates them."""
    service_address = first_address(settings.service_ranges)
    advertised = (settings.advertise_address,) if settings.advertise_address else ()
    hosts = (*settings.secure_hosts, *advertised)
    wanted = serving_names(names, hosts, service_address)
    return prepare(settings.pki, wanted, time.time())


def signing_authorities(settings: Settings, names: Names) -> Authorities:
    """The CA certificates and keys for controllers, which need them even without a secure port."""
    return Authorities(
        partial(prepare_certificates, settings, names), settings.signing.files(names), settings.tls_cert_file
    )


def prepare_tls(settings: Settings, names: Names, config: ServerConfig) -> Tls | None:
    """Put the certificate and the client CAs into `config`; returns None if the secure port is off."""
    if not settings.secure_binds:
        return None
    certificates = prepare_certificates(settings, names)
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

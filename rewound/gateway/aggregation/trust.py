"""The CA certificates that aggregated servers should trust: for clients, and for this server as their proxy."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio

from rewound.actors.certificates.names import PROXY_NAME
from rewound.actors.certificates.pki import CertificateError
from rewound.actors.certificates.signing import Authorities
from rewound.actors.golang.json import dumps
from rewound.gateway.settings.settings import Settings


async def proxy_identity(settings: Settings, authorities: Authorities) -> tuple[Path, Path]:
    """The certificate and key by which aggregated servers recognize this one. Raises CertificateError."""
    certificate, key = settings.proxy.proxy_client_cert_file, settings.proxy.proxy_client_key_file
    if certificate is not None and key is not None:
        return certificate, key
    own = await authorities.certificates()
    return own.certificate("proxy"), own.key("proxy")


async def published_trust(settings: Settings, authorities: Authorities) -> dict[str, str]:
    """The data of the ConfigMap `extension-apiserver-authentication`. Raises CertificateError."""
    own = await authorities.certificates()
    clients = [own.authority, *([settings.client_ca_file] if settings.client_ca_file else [])]
    headers = settings.request_headers
    names: tuple[str, ...] = headers.requestheader_allowed_names
    proxies = headers.requestheader_client_ca_file
    if settings.proxy.proxy_client_cert_file is None:
        # Our own certificate: that of an authenticating proxy in front of this server is of no use to them.
        proxies, names = own.certificate("proxy-ca"), (PROXY_NAME,)
    published = {"client-ca-file": await trio.to_thread.run_sync(partial(_read, clients))}
    if proxies is None:
        return published  # it is unknown which CA issued a certificate that an operator configured
    return published | {
        "requestheader-allowed-names": _listed(names),
        "requestheader-client-ca-file": await trio.to_thread.run_sync(partial(_read, [proxies])),
        "requestheader-extra-headers-prefix": _listed(("X-Remote-Extra-",)),
        "requestheader-group-headers": _listed(("X-Remote-Group",)),
        "requestheader-username-headers": _listed(("X-Remote-User",)),
    }


def _listed(values: tuple[str, ...]) -> str:
    return dumps([one for value in values for one in value.split(",")]).decode()


def _read(paths: list[Path]) -> str:
    try:
        return "".join(path.read_text("ascii") for path in paths)
    except (OSError, UnicodeDecodeError) as error:
        raise CertificateError(f"cannot read a CA certificate: {error}") from error

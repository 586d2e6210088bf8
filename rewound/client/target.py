"""The target of requests: the server's address, proxy, trusted CA and credentials, and where they are configured."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit

from rewound.actors.certificates.names import address_of
from rewound.actors.certificates.trust import InvalidBundle, unverifying, verifying
from rewound.client.credentials import Credential, CredentialSource, KeyPair, basic
from rewound.client.errors import ConfigError, CredentialError, UsageError


@dataclass(frozen=True, slots=True)
class Target:
    server: str  # without credentials: it is shown and stored
    credentials: CredentialSource = field(repr=False)
    configured_in: str  # for errors: the files and the context, or the flags
    authority: bytes | None = None  # PEM; None trusts the authorities of this machine
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)  # may contain a password
    namespace: str = "default"
    impersonated_user: str = ""
    impersonated_groups: tuple[str, ...] = ()


_USER_INFO = re.compile(r"(?<=//)[^/?#]*@")
# In a text that is not a URL, the end of a password is unknown.
_ANY_USER_INFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL)


def without_credentials(url: str) -> str:
    return _USER_INFO.sub("", url, count=1)


def checked_url(url: str, field_name: str) -> str:
    """The URL with its scheme, and with its credentials. Raises ConfigError if it is not a URL."""
    if not url:
        raise ConfigError(
            f"{field_name} is missing; give the address of the server, or name it with --server"
        )
    # As kubectl does, a host without a scheme is reached by https.
    whole = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(whole)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        shown = _ANY_USER_INFO.sub(r"\1", url)
        raise ConfigError(f"{field_name}: {shown!r} is not a URL; give one such as https://127.0.0.1:6443")
    return whole


def with_url_credentials(url: str, source: CredentialSource) -> CredentialSource:
    """A source whose credentials are those of the URL, if it has any."""
    parts = urlsplit(url)
    return UrlCredential(parts, source) if parts.username or parts.password else source


class UrlCredential:
    """Basic authentication with the credentials of a URL (https://user:password@host), and the client
    certificate of another source.

    Everything that shows or stores an address (errors, logs, files) has the URL without them; requests send
    them in place of other credentials for the header, as clients in Go do.
    """

    def __init__(self, parts: SplitResult, source: CredentialSource) -> None:
        self._authorization = basic(unquote(parts.username or ""), unquote(parts.password or ""))
        self._source = source

    def credential(self) -> Credential:
        return replace(self._source.credential(), authorization=self._authorization)

    def rejected(self, credential: Credential) -> None:
        """Passes it on: the credentials of a URL stay the same."""


_PORTS = {"http": 80, "https": 443}


def is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def environment_proxy(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """The proxy of the environment for a server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as Go reads them.

    Clients read the same variables in different ways. The HTTP library would use ALL_PROXY too, and knows no
    networks in NO_PROXY: then our commands would not reach a server that kubectl reaches.

    Returns its URL, or an empty string. Servers on this machine need none.
    """
    parts = urlsplit(server)
    proxy = _variable(f"{parts.scheme}_proxy", environment)
    if not proxy or is_local(server):
        return ""
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    if any(_matches(one, host, port) for one in _variable("no_proxy", environment).split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name.upper()) or environment.get(name, "")


def _matches(item: str, host: str, port: int) -> bool:
    """Whether an item of NO_PROXY names the server: `*`, a network, or a host or address, maybe with a port.

    `example.com` names its subdomains too, `.example.com` and `*.example.com` only these.
    """
    item = item.strip().lower()
    if item == "*":
        return True
    address = address_of(host)
    if "/" in item:
        return address is not None and _is_in(address, item)
    item, wanted = _split_port(item)
    if not item or wanted not in (None, port):
        return False
    if address is not None:
        return address_of(item) == address
    return host == item or host.endswith("." + item.removeprefix("*").removeprefix("."))


def _split_port(item: str) -> tuple[str, int | None]:
    if address_of(item) is not None:
        return item, None
    host, colon, port = item.rpartition(":")
    if not colon or not port.isdecimal():
        return item.strip("[]"), None
    return host.strip("[]"), int(port)


def _is_in(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False  # neither does Go report it


def client_context(
    authority: bytes | None, pair: KeyPair | None, source: str, *, insecure: bool = False
) -> ssl.SSLContext:
    """The TLS context. `source` is where CA and certificate are configured, for errors."""
    context = unverifying() if insecure else _trusting(authority, source)
    if pair is not None:
        _load_pair(context, pair, source)
    return context


def _trusting(authority: bytes | None, source: str) -> ssl.SSLContext:
    try:
        return verifying(authority)
    except InvalidBundle as error:
        raise ConfigError(
            f"{source}: the certificate authority is not a certificate in PEM form; give the CA of the server"
        ) from error


def check_pair(pair: KeyPair, source: str) -> None:
    """Raises CredentialError if the certificate and the key cannot be used."""
    _load_pair(unverifying(), pair, source)


def _load_pair(context: ssl.SSLContext, pair: KeyPair, source: str) -> None:
    # The library reads certificates from files only; the folder has mode 0700 and is removed at once.
    with tempfile.TemporaryDirectory(prefix="rewound-client-") as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialError(
                f"{source}: the client certificate and its key cannot be used; both must be PEM, without a "
                "password, and belong together"
            ) from error


def _no_password() -> bytes:
    """Refuse an encrypted key: by default, OpenSSL would ask for its password on the terminal."""
    raise ValueError("the key has a password")


def segment(name: str) -> str:
    """Return a name as one segment of a path."""
    if name in (".", ".."):
        raise UsageError(f"{name!r} is not a name")
    return quote(name, safe="")

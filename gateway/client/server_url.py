"""The URL of a server, apart from the credentials that it may hold: https://user:password@host.

Everything that shows or stores an address (errors, logs, files) has the URL without them; requests send them as Basic
authentication, in place of other credentials for the header, as clients in Go do. And whether a server is reached
through a proxy of the environment.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import SplitResult, unquote, urlsplit

from gateway.client.credentials import Credential, CredentialSource, basic
from gateway.client.errors import ConfigError

_USER_INFO = re.compile(r"(?<=//)[^/?#]*@")
# Of a text that is no URL nobody knows where a password ends.
_ANY_USER_INFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL)


def without_credentials(url: str) -> str:
    return _USER_INFO.sub("", url, count=1)


def checked_url(url: str, field_name: str) -> str:
    """The URL with its scheme, and with its credentials. ConfigError."""
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


def is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def may_use_proxy(server: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether HTTPS_PROXY and the like count: not for servers on this machine, nor in a network of NO_PROXY.

    The HTTP library reads NO_PROXY too, but only its names and single addresses.
    """
    address = _address(urlsplit(server).hostname or "")
    return not is_local(server) and not (address is not None and _excepted(address, environment))


def _excepted(address: ipaddress.IPv4Address | ipaddress.IPv6Address, environment: Mapping[str, str]) -> bool:
    for one in (environment.get("NO_PROXY") or environment.get("no_proxy", "")).split(","):
        try:
            if "/" in one and address in ipaddress.ip_network(one.strip(), strict=False):
                return True
        except ValueError:
            continue  # neither does Go report it
    return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class UrlCredential:
    """Basic authentication with the credentials of a URL, and the client certificate of another source."""

    def __init__(self, parts: SplitResult, source: CredentialSource) -> None:
        self._authorization = basic(unquote(parts.username or ""), unquote(parts.password or ""))
        self._source = source

    def credential(self) -> Credential:
        return replace(self._source.credential(), authorization=self._authorization)

    def rejected(self, credential: Credential) -> None:
        """Those of a URL stay the same."""

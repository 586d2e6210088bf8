"""The URL of a server, apart from the credentials that it may hold: https://user:password@host.

Everything that shows or stores an address (errors, logs, files) has the URL without them; requests send them as Basic
authentication, in place of other credentials for the header, as clients in Go do.
"""

from __future__ import annotations

import re
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


class UrlCredential:
    """Basic authentication with the credentials of a URL, and the client certificate of another source."""

    def __init__(self, parts: SplitResult, source: CredentialSource) -> None:
        self._authorization = basic(unquote(parts.username or ""), unquote(parts.password or ""))
        self._source = source

    def credential(self) -> Credential:
        return replace(self._source.credential(), authorization=self._authorization)

    def rejected(self, credential: Credential) -> None:
        """Those of a URL stay the same."""

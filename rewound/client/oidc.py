"""The ID token of a user: the one in the kubeconfig file, or after its expiry a new one that is written back to it.

The file is locked during a refresh, because a refresh token may be valid only once: one of several commands refreshes,
and the others read the new token from the file. No error quotes requests or responses, because they contain secrets.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx

from rewound.actors.access.remote.kubeconfig_file import KubeconfigError, User, read_kubeconfig
from rewound.client.credentials import Credential, KeyPair, basic, bearer
from rewound.client.errors import ConfigError, CredentialError
from rewound.client.kubeconfig_edit import locked, set_provider_fields
from rewound.client.target import client_context, environment_proxy

# A token must not expire on its way to the server.
_LEEWAY_SECONDS = 10


class OidcTokens:
    """A CredentialSource. `entry` is the auth-provider of the user in the file at `path`."""

    def __init__(
        self,
        path: Path,
        user: str,
        entry: Mapping[str, Any],
        pair: KeyPair | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._user, self._pair, self._now = path, user, pair, now
        self._config = self._parse(entry)
        self._lock = threading.Lock()

    def credential(self) -> Credential:
        with self._lock:
            if not self._valid():
                self._refresh()
            return Credential(bearer(self._config.id_token), self._pair)

    def rejected(self, credential: Credential) -> None:
        """Keeps the token: the provider issues another only after its expiry."""

    def _parse(self, entry: Mapping[str, Any]) -> OidcConfig:
        source = f"{self._path}: users[{self._user}].user.auth-provider"
        return parse_provider(entry, source, self._path.absolute().parent)

    def _valid(self) -> bool:
        expires = expiry(self._config.id_token)
        return expires is not None and self._now() + _LEEWAY_SECONDS < expires

    def _refresh(self) -> None:
        with locked(self._path):
            # Another command may have refreshed it since this one read the file.
            user = self._read_user()
            if user is not None and user.fields.get("auth-provider"):
                self._config = self._parse(user.fields["auth-provider"])
            if self._valid():
                return
            if not self._config.refresh_token:
                raise CredentialError(
                    f"{self._config.source}: the id-token is missing or has expired, and there is no refresh-token; "
                    "sign in at the provider again and store its tokens, or pass an ID token with --token"
                )
            refreshed = refresh(self._config)
            fields = {"id-token": refreshed.id_token}
            if refreshed.refresh_token:
                fields["refresh-token"] = refreshed.refresh_token
            set_provider_fields(self._path, self._user, fields)
            self._config = replace(
                self._config,
                id_token=refreshed.id_token,
                refresh_token=refreshed.refresh_token or self._config.refresh_token,
            )

    def _read_user(self) -> User | None:
        try:
            return read_kubeconfig(self._path).users.get(self._user)
        except KubeconfigError as error:
            raise CredentialError(f"{error}; correct it, or pass an ID token with --token") from error


def expiry(token: str) -> float | None:
    """The claim `exp` of a JWT, whose signature the server checks; None for a token without one."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        expires = claims["exp"]
    except (ValueError, KeyError, TypeError):
        return None
    return float(expires) if isinstance(expires, int | float) else None


@dataclass(frozen=True, slots=True, repr=False)
class OidcConfig:
    source: str  # file and field, for errors
    issuer: str
    client_id: str
    client_secret: str
    refresh_token: str
    id_token: str
    authority: bytes | None  # PEM; None trusts the authorities of this machine


def parse_provider(entry: Mapping[str, Any], source: str, folder: Path) -> OidcConfig:
    """Parse an `auth-provider` entry. `source` is the file and the field, `folder` that of the file."""
    if entry.get("name") != "oidc":
        raise ConfigError(
            f"{source}.name is {entry.get('name')!r}; the only provider is oidc, others need an exec plugin"
        )
    config, source = entry.get("config"), f"{source}.config"
    if not isinstance(config, dict):
        raise ConfigError(f"{source} is missing; give idp-issuer-url, client-id and refresh-token")
    issuer = _text(config, "idp-issuer-url", source)
    if not is_https(issuer):
        raise ConfigError(
            f"{source}.idp-issuer-url is not a URL that begins with https://; give that of the provider"
        )
    client_id = _text(config, "client-id", source)
    if not client_id:
        raise ConfigError(f"{source}.client-id is missing; give the one that the provider knows")
    return OidcConfig(
        source=source,
        issuer=issuer,
        client_id=client_id,
        client_secret=_text(config, "client-secret", source),
        refresh_token=_text(config, "refresh-token", source),
        id_token=_text(config, "id-token", source),
        authority=_authority(config, source, folder),
    )


def is_https(url: str) -> bool:
    try:
        return urlsplit(url).scheme == "https" and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _authority(config: Mapping[str, Any], source: str, folder: Path) -> bytes | None:
    data, file = (_text(config, f"idp-certificate-authority{suffix}", source) for suffix in ("-data", ""))
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(
                f"{source}.idp-certificate-authority-data is not base64; encode the PEM file"
            ) from error
    if not file:
        return None
    try:
        return (folder / file).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{source}.idp-certificate-authority: cannot read {folder / file}: {error.strerror}; check the path"
        ) from error


def _text(config: Mapping[str, Any], field: str, source: str) -> str:
    value = config.get(field)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{source}.{field} is not a string; put it in quotes")
    return value or ""


_SECONDS = 30
_ERROR_CODE = re.compile(r"[a-z_]{1,60}")


@dataclass(frozen=True, slots=True)
class Refreshed:
    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)  # empty where the old one stays valid


def refresh(config: OidcConfig) -> Refreshed:
    context = client_context(config.authority, None, f"{config.source}.idp-certificate-authority")
    try:
        return _refresh(context, config)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        raise CredentialError(
            f"{config.source}.idp-issuer-url: cannot reach the provider: {_reason(error)}; check the URL, "
            "idp-certificate-authority and HTTPS_PROXY"
        ) from error


def _refresh(context: ssl.SSLContext, config: OidcConfig) -> Refreshed:
    url = f"{config.issuer.rstrip('/')}/.well-known/openid-configuration"
    with _client(context, url) as client:
        provider = _document(client.get(url))
    endpoint = provider.get("token_endpoint")
    if not isinstance(endpoint, str) or not is_https(endpoint):
        raise CredentialError(
            f"{config.source}.idp-issuer-url: {url} names no token_endpoint with https; check the URL"
        )
    form = {"grant_type": "refresh_token", "refresh_token": config.refresh_token}
    headers = {"accept": "application/json"}
    if config.client_secret and _by_header(provider):
        name, secret = quote_plus(config.client_id), quote_plus(config.client_secret)
        headers["authorization"] = basic(name, secret)
    else:
        form["client_id"] = config.client_id
        if config.client_secret:
            form["client_secret"] = config.client_secret
    with _client(context, endpoint) as client:
        return _refreshed(config, client.post(endpoint, data=form, headers=headers))


def _client(context: ssl.SSLContext, url: str) -> httpx.Client:
    proxy = environment_proxy(url) or None
    return httpx.Client(verify=context, timeout=_SECONDS, proxy=proxy, trust_env=False)


def _by_header(provider: dict[str, Any]) -> bool:
    """Whether the provider takes the client secret in a header: all do, unless they say otherwise."""
    methods = provider.get("token_endpoint_auth_methods_supported")
    return not isinstance(methods, list) or "client_secret_basic" in methods


def _refreshed(config: OidcConfig, response: httpx.Response) -> Refreshed:
    document = _document(response)
    if response.status_code != 200:
        code = document.get("error")
        shown = f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
        raise CredentialError(
            f"{config.source}.refresh-token: the provider refused it with {response.status_code}{shown}; sign in at "
            "the provider again, and store the new tokens"
        )
    id_token, refresh_token = document.get("id_token"), document.get("refresh_token")
    if not isinstance(id_token, str) or not id_token:
        raise CredentialError(
            f"{config.source}: the response of the provider to the refresh has no id_token, so the helper cannot be "
            "used with it; get an ID token yourself and pass it with --token"
        )
    return Refreshed(id_token, refresh_token if isinstance(refresh_token, str) else "")


def _document(response: httpx.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {}


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError | ImportError):
        return "the proxy cannot be used"  # without its URL, which may hold a password
    return str(error).partition(" (_ssl")[0] or type(error).__name__

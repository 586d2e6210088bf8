"""The `auth-provider` entry of a user whose provider is `oidc`: what the helper stores in the kubeconfig file."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.client.errors import ConfigError


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
    """`source` is the file and the field of the entry, `folder` the folder of the file."""
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

"""Makes the credential source of a user in a kubeconfig file.

Of several credentials of one user: a token is used rather than a token file, both rather than a plugin or a provider;
a certificate is presented along with any of them, and a plugin does not run for a user who has one. A user without any
is anonymous.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.access.remote.kubeconfig_file import Cluster, User, read_pem
from actors.names import Names
from gateway.client.credentials import (
    Credential,
    CredentialSource,
    FixedCredential,
    KeyPair,
    PairFiles,
    TokenFile,
    basic,
    bearer,
)
from gateway.client.errors import ConfigError
from gateway.client.exec.config import parse_exec
from gateway.client.exec.plugin import ExecPlugin
from gateway.client.oidc.tokens import OidcTokens
from gateway.client.tls import check_pair


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster as a plugin with provideClusterInfo gets it."""

    cluster: Cluster
    server: str
    authority: bytes | None

    def document(self, names: Names) -> dict[str, Any]:
        cluster = self.cluster
        found: dict[str, Any] = {"server": self.server}
        if cluster.tls_server_name:
            found["tls-server-name"] = cluster.tls_server_name
        if cluster.insecure:
            found["insecure-skip-tls-verify"] = True
        if self.authority is not None:
            found["certificate-authority-data"] = base64.b64encode(self.authority).decode()
        if cluster.proxy_url:
            found["proxy-url"] = cluster.proxy_url
        config = cluster.extensions.get(f"{names.group('client.authentication')}/exec")
        if config is not None:
            found["config"] = config
        return found


def credentials_of(path: Path, user: User, info: ClusterInfo) -> CredentialSource:
    """`path` is the file that has the user."""
    pair = _pair(path, user)
    source = _source(path, user, info, pair)
    files = [one for one in (user.certificate, user.key) if isinstance(one, Path)]
    if pair is None or not files:
        return source
    return PairFiles(source, pair, lambda: _fitting_pair(path, user), files)


def _source(path: Path, user: User, info: ClusterInfo, pair: KeyPair | None) -> CredentialSource:
    place = f"{path}: users[{user.name}].user"
    plugin, provider = _mapping(user, "exec", place), _mapping(user, "auth-provider", place)
    if plugin is not None and provider is not None:
        raise ConfigError(f"{place}: exec and auth-provider exclude each other; remove one")
    if user.username and (user.token or user.token_file):
        raise ConfigError(f"{place}: username and token exclude each other; remove one")
    if user.token:
        return FixedCredential(Credential(bearer(user.token), pair))
    if user.token_file is not None:
        return TokenFile(user.token_file, f"{place}.tokenFile", pair)
    if user.username:
        return FixedCredential(Credential(basic(user.username, user.password), pair))
    if plugin is not None:
        config = parse_exec(plugin, f"{place}.exec", path.absolute().parent)
        if pair is None:
            return ExecPlugin(config, info.document(config.names))
    if provider is not None:
        return OidcTokens(path, user.name, provider, pair)
    return FixedCredential(Credential("", pair))


def check_one_form(path: Path, place: str, fields: Mapping[str, Any], name: str) -> None:
    """As kubectl, refuse a file and data at the same time: they may differ."""
    if fields.get(name) and fields.get(f"{name}-data"):
        raise ConfigError(f"{path}: {place}: {name} and {name}-data exclude each other; remove one")


def _fitting_pair(path: Path, user: User) -> KeyPair:
    """CredentialError for a certificate with the key of another."""
    pair = _pair(path, user)
    assert pair is not None
    check_pair(pair, str(path))
    return pair


def _pair(path: Path, user: User) -> KeyPair | None:
    place = f"users[{user.name}].user"
    for name in ("client-certificate", "client-key"):
        check_one_form(path, place, user.fields, name)
    if (user.certificate is None) != (user.key is None):
        present, absent = ("client-certificate", "client-key")[:: 1 if user.key is None else -1]
        raise ConfigError(f"{path}: {place}: {present} is given without {absent}; give both or neither")
    if user.certificate is None or user.key is None:
        return None
    certificate = read_pem(path, f"{place}.client-certificate", user.certificate)
    return KeyPair(certificate, read_pem(path, f"{place}.client-key", user.key))


def _mapping(user: User, name: str, place: str) -> Mapping[str, Any] | None:
    value = user.fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{place}.{name} is not a mapping; see the documentation of kubeconfig files")
    return value

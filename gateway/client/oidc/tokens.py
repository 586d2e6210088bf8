"""The ID token of a user: the one in the kubeconfig file, or after its expiry a new one that is written back to it.

The file is locked during a refresh, because a refresh token may be valid only once: of several commands one refreshes,
and the others read what it wrote.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.access.remote.kubeconfig_file import KubeconfigError, User, read_kubeconfig
from gateway.client.credentials import Credential, KeyPair, bearer
from gateway.client.errors import CredentialError
from gateway.client.oidc.config import OidcConfig, parse_provider
from gateway.client.oidc.kubeconfig_edit import locked, set_provider_fields
from gateway.client.oidc.provider import refresh

# A token that expires on the way to the server is of no use.
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
        """The token stays: only its expiry says that the provider would issue another."""

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

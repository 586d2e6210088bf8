"""The settings of service account tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from actors.access.accounts.claims import AccountOptions, default_issuer
from actors.names import Names
from gateway.settings.checks import SettingsError, check_file

_HOUR, _LONGEST = 3600, 2**32  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountSettings:
    service_account_signing_key_file: Path | None = None  # None: a key of the data folder
    service_account_key_file: tuple[str, ...] = ()
    service_account_lookup: bool = True
    service_account_issuer: tuple[str, ...] = ()  # none: the name of the API's Service
    api_audiences: tuple[str, ...] = ()  # each may list several, separated by commas; none: the issuers
    service_account_max_token_expiration: float = 0.0  # seconds; 0: no limit
    service_account_extend_token_expiration: bool = True
    service_account_jwks_uri: str = ""

    def __post_init__(self) -> None:
        check_file("--service-account-signing-key-file", self.service_account_signing_key_file)
        for path in self.key_files:
            check_file("--service-account-key-file", path)
        self._check_issuers()
        self._check_expiration()
        if self.service_account_jwks_uri and urlsplit(self.service_account_jwks_uri).scheme != "https":
            raise SettingsError("--service-account-jwks-uri", "is not an https URL; give one")

    @property
    def key_files(self) -> tuple[Path, ...]:
        return tuple(map(Path, self.service_account_key_file))

    def options(self, names: Names) -> AccountOptions:
        issuers = self.service_account_issuer or (default_issuer(names),)
        return AccountOptions(
            issuers,
            self._audiences or issuers,
            self.service_account_lookup,
            round(self.service_account_max_token_expiration),
            self.service_account_extend_token_expiration,
            self.service_account_jwks_uri,
        )

    @property
    def _audiences(self) -> tuple[str, ...]:
        return tuple(one for text in self.api_audiences for one in text.split(",") if one)

    def _check_issuers(self) -> None:
        flag, issuers = "--service-account-issuer", self.service_account_issuer
        if "" in issuers:
            raise SettingsError(flag, "is empty; give the name or URL of the issuer, or leave the flag out")
        if len(set(issuers)) < len(issuers):
            raise SettingsError(flag, "names an issuer twice; give each once")
        for issuer in issuers:
            if ":" in issuer and not _is_url(issuer):
                raise SettingsError(
                    flag, f"{issuer!r} contains a colon and is no URL; give a URL or a plain name"
                )

    def _check_expiration(self) -> None:
        seconds = self.service_account_max_token_expiration
        if seconds and not _HOUR <= seconds <= _LONGEST:
            raise SettingsError(
                "--service-account-max-token-expiration",
                f"{seconds:.0f} s is not between an hour and 2^32 seconds; give a duration like 24h",
            )


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        _ = url.port  # ValueError if it is no number
        return bool(url.scheme)
    except ValueError:
        return False

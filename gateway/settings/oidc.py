"""The settings of OpenID Connect."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from actors.access.authentication.oidc_claims import ALGORITHMS, ClaimRules, username_prefix
from gateway.settings.checks import SettingsError, check_authorities, check_choice, split_list


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_required_claim: tuple[str, ...] = ()
    oidc_ca_file: Path | None = None
    oidc_signing_algs: tuple[str, ...] = ("RS256",)

    def __post_init__(self) -> None:
        given = [
            "--" + one.name.replace("_", "-")
            for one in fields(self)
            if getattr(self, one.name) != one.default
        ]
        if not given:
            return
        for flag, value in (
            ("--oidc-issuer-url", self.oidc_issuer_url),
            ("--oidc-client-id", self.oidc_client_id),
        ):
            if not value:
                raise SettingsError(given[0], f"needs {flag} too")
        self._check_issuer()
        if not self.oidc_username_claim:
            raise SettingsError("--oidc-username-claim", "is empty; give a claim like sub or email")
        if self.oidc_groups_prefix and not self.oidc_groups_claim:
            raise SettingsError(
                "--oidc-groups-prefix", "has no effect without --oidc-groups-claim; add it or leave this out"
            )
        for one in self.oidc_required_claim:
            _required(one)
        for name in self.algorithms:
            check_choice("--oidc-signing-algs", name, ALGORITHMS)
        check_authorities("--oidc-ca-file", self.oidc_ca_file)

    def _check_issuer(self) -> None:
        try:
            url = urlsplit(self.oidc_issuer_url)
            wrong = (
                url.scheme != "https" or not url.hostname or url.query or url.fragment or "@" in url.netloc
            )
        except ValueError:
            wrong = True
        if wrong:
            raise SettingsError(
                "--oidc-issuer-url",
                f"{self.oidc_issuer_url!r} is no URL of an issuer; give one like https://accounts.example.com",
            )

    @property
    def algorithms(self) -> list[str]:
        return split_list("--oidc-signing-algs", self.oidc_signing_algs)

    @property
    def rules(self) -> ClaimRules:
        return ClaimRules(
            self.oidc_issuer_url,
            self.oidc_client_id,
            self.oidc_username_claim,
            username_prefix(self.oidc_username_prefix, self.oidc_username_claim, self.oidc_issuer_url),
            self.oidc_groups_claim,
            self.oidc_groups_prefix,
            tuple(_required(one) for one in self.oidc_required_claim),
        )


def _required(pair: str) -> tuple[str, str]:
    claim, separator, value = pair.partition("=")
    if not separator or not claim:
        raise SettingsError("--oidc-required-claim", f"{pair!r} is no pair; give one like department=sales")
    return claim, value

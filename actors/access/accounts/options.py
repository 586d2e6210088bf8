"""How service account tokens are issued and accepted, as the flags say."""

from __future__ import annotations

from dataclasses import dataclass

from actors.names import Names


@dataclass(frozen=True, slots=True)
class AccountOptions:
    issuers: tuple[str, ...]  # the first one signs, all are accepted
    audiences: tuple[str, ...]  # of the API server: of tokens that request none
    lookup: bool = True  # tokens in Secrets end with the Secret and the account
    max_seconds: int = 0  # the longest life of a token; 0: no limit
    extend: bool = True  # tokens of pods' volumes are accepted for a year
    keys_url: str = ""  # where relying parties find the keys; empty: at this server

    @property
    def issuer(self) -> str:
        return self.issuers[0]


def default_issuer(names: Names) -> str:
    return f"https://{names.api_service}.default.svc.{names.service_domain}"


def default_options(names: Names) -> AccountOptions:
    issuer = default_issuer(names)
    return AccountOptions((issuer,), (issuer,))

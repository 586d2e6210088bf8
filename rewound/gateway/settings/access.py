"""Settings of access: authorization modes, token webhook, issuers of tokens, the authenticating proxy, service account
tokens and the signing of certificates.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rewound.actors.access.accounts.claims import AccountOptions, default_issuer
from rewound.actors.access.authentication.authenticate import RequestHeaders
from rewound.actors.access.authentication.oidc_claims import ALGORITHMS, ClaimRules, username_prefix
from rewound.actors.names import Names
from rewound.actors.profile import Rules
from rewound.actors.versions.features import ISSUERS_IN_FILE
from rewound.gateway.settings.checks import (
    REVIEW_VERSIONS,
    SettingsError,
    check_authorities,
    check_certificate_and_key,
    check_choice,
    check_file,
    refuse_without,
    split_list,
)

if TYPE_CHECKING:
    from rewound.actors.certificates.signing import AuthorityFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationSettings:
    """Settings of authorization by file and by webhook: each needs its mode, and each mode needs its file.

    `authorization_config` has everything instead, except the policies of ABAC.
    """

    authorization_config: Path | None = None
    authorization_policy_file: Path | None = None
    authorization_webhook_config_file: Path | None = None
    authorization_webhook_cache_authorized_ttl: float = 300.0  # seconds; 0: not cached
    authorization_webhook_cache_unauthorized_ttl: float = 30.0
    authorization_webhook_version: str = "v1beta1"

    def __post_init__(self) -> None:
        check_file("--authorization-config", self.authorization_config)
        check_file("--authorization-policy-file", self.authorization_policy_file)
        check_file("--authorization-webhook-config-file", self.authorization_webhook_config_file)
        check_choice("--authorization-webhook-version", self.authorization_webhook_version, REVIEW_VERSIONS)

    def check_config(self, mode: str) -> None:
        """Refuse the file beside the flags that it replaces."""
        given = [one for one in fields(self) if one.name.startswith("authorization_webhook_")]
        if mode or any(getattr(self, one.name) != one.default for one in given):
            raise SettingsError(
                "--authorization-config",
                "can not be specified when --authorization-mode or --authorization-webhook-* flags are defined",
            )

    def check_modes(self, modes: Collection[str]) -> None:
        """Refuse a mode without its file, and a file without its mode."""
        _check_mode("ABAC", modes, "--authorization-policy-file", self.authorization_policy_file)
        config_file = self.authorization_webhook_config_file
        _check_mode("Webhook", modes, "--authorization-webhook-config-file", config_file)
        if "Webhook" not in modes:
            refuse_without(self, "Webhook in --authorization-mode", "authorization_webhook_")


def _check_mode(mode: str, modes: Collection[str], flag: str, path: Path | None) -> None:
    if mode in modes and path is None:
        raise SettingsError(flag, f"is missing; --authorization-mode={mode} needs it")
    if mode not in modes and path is not None:
        raise SettingsError(
            flag, f"has no effect without {mode} in --authorization-mode; add it or leave this out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWebhookSettings:
    """Settings of the token webhook; without a configuration file there is none, and the others have no effect."""

    authentication_token_webhook_config_file: Path | None = None
    authentication_token_webhook_cache_ttl: float = 120.0  # seconds; 0: every request calls the webhook
    authentication_token_webhook_version: str = "v1beta1"

    def __post_init__(self) -> None:
        check_file(
            "--authentication-token-webhook-config-file", self.authentication_token_webhook_config_file
        )
        version = self.authentication_token_webhook_version
        check_choice("--authentication-token-webhook-version", version, REVIEW_VERSIONS)
        if self.authentication_token_webhook_config_file is None:
            refuse_without(self, "--authentication-token-webhook-config-file")


CONFIGURATION_FLAG = "--authentication-config"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """The file with the issuers of tokens and the paths of anonymous requests, which is read again when it changes."""

    authentication_config: Path | None = None

    def __post_init__(self) -> None:
        check_file(CONFIGURATION_FLAG, self.authentication_config)

    def check_others(self, features: frozenset[str], oidc: OidcSettings) -> None:
        """Refuse the file in versions without it, and beside the flags that it replaces."""
        if ISSUERS_IN_FILE not in features:
            raise SettingsError(
                CONFIGURATION_FLAG,
                f"set --feature-gates={ISSUERS_IN_FILE}=true to use authentication-config file; "
                "Kubernetes has it from 1.29 on, and by default from 1.30 on",
            )
        if oidc != OidcSettings():
            raise SettingsError(
                CONFIGURATION_FLAG,
                "authentication-config file and oidc-* flags are mutually exclusive; move what they say to the file",
            )


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
                f"{self.oidc_issuer_url!r} is not the URL of an issuer; give one like https://accounts.example.com",
            )

    @property
    def algorithms(self) -> list[str]:
        return split_list("--oidc-signing-algs", self.oidc_signing_algs)

    def claim_rules(self, rules: Rules, id_key: str = "") -> ClaimRules:
        return ClaimRules(
            self.oidc_issuer_url,
            (self.oidc_client_id,),
            self.oidc_username_claim,
            username_prefix(self.oidc_username_prefix, self.oidc_username_claim, self.oidc_issuer_url),
            self.oidc_groups_claim,
            self.oidc_groups_prefix,
            tuple(_required(one) for one in self.oidc_required_claim),
            lone_group=rules.oidc_groups == "list-or-string",
            id_key=id_key,
        )


def _required(pair: str) -> tuple[str, str]:
    claim, separator, value = pair.partition("=")
    if not separator or not claim:
        raise SettingsError(
            "--oidc-required-claim", f"{pair!r} is not a pair; give one like department=sales"
        )
    return claim, value


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers that the server itself uses for something else.
_RESERVED = ("authorization", "host", "content-length", "transfer-encoding", "connection", "upgrade")
_IMPERSONATE = "impersonate-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderSettings:
    requestheader_username_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()
    requestheader_client_ca_file: Path | None = None
    requestheader_allowed_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = ["--" + one.name.replace("_", "-") for one in fields(self) if getattr(self, one.name)]
        if not given:
            return
        if not self.requestheader_client_ca_file:
            raise SettingsError(
                given[0], "needs the CA of the proxy; give it with --requestheader-client-ca-file"
            )
        if not self.requestheader_username_headers:
            raise SettingsError(
                given[0],
                "needs the header of the user name; give --requestheader-username-headers=X-Remote-User",
            )
        check_authorities("--requestheader-client-ca-file", self.requestheader_client_ca_file)
        for flag, values in (
            ("--requestheader-username-headers", self.requestheader_username_headers),
            ("--requestheader-group-headers", self.requestheader_group_headers),
            ("--requestheader-extra-headers-prefix", self.requestheader_extra_headers_prefix),
        ):
            _check_headers(flag, values)
        if "" in split_list("--requestheader-allowed-names", self.requestheader_allowed_names):
            raise SettingsError(
                "--requestheader-allowed-names", "has an empty name; leave the flag out to allow every name"
            )

    @property
    def headers(self) -> RequestHeaders | None:
        """The headers of the authenticating proxy; None without one."""
        if self.requestheader_client_ca_file is None:
            return None
        return RequestHeaders(
            _names(self.requestheader_username_headers),
            _names(self.requestheader_group_headers),
            _names(self.requestheader_extra_headers_prefix),
            frozenset(split_list("--requestheader-allowed-names", self.requestheader_allowed_names)),
        )


def _check_headers(flag: str, values: tuple[str, ...]) -> None:
    for name in split_list(flag, values):
        if _HEADER.fullmatch(name) is None:
            raise SettingsError(flag, f"{name!r} is not a header name; give one like X-Remote-User")
        if name.lower() in _RESERVED or name.lower().startswith(_IMPERSONATE):
            raise SettingsError(flag, f"{name} has another meaning; let the proxy use a header of its own")


def _names(values: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.lower().encode() for name in split_list("", values))


_HOUR, _LONGEST = 3600, 2**32  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountSettings:
    service_account_signing_key_file: Path | None = None  # None: a key in the data folder
    service_account_key_file: tuple[str, ...] = ()
    service_account_lookup: bool = True
    service_account_issuer: tuple[str, ...] = ()  # if empty, the DNS name of the API's Service
    api_audiences: tuple[str, ...] = ()  # each may be several, separated by commas; if empty, the issuers
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
                    flag, f"{issuer!r} contains a colon and is not a URL; give a URL or a plain name"
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
        _ = url.port  # raises ValueError if the port is not a number
        return bool(url.scheme)
    except ValueError:
        return False


# The names of signers in flags, the same in both dialects.
SIGNERS = ("kubelet-serving", "kubelet-client", "kube-apiserver-client", "legacy-unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSettings:
    """Settings of certificate signing: the CA of each built-in signer, and how long certificates are valid.

    Without files, the data folder's own CA signs.
    """

    cluster_signing_cert_file: Path | None = None
    cluster_signing_key_file: Path | None = None
    cluster_signing_duration: float = 365 * 86400.0
    cluster_signing_kubelet_serving_cert_file: Path | None = None
    cluster_signing_kubelet_serving_key_file: Path | None = None
    cluster_signing_kubelet_client_cert_file: Path | None = None
    cluster_signing_kubelet_client_key_file: Path | None = None
    cluster_signing_kube_apiserver_client_cert_file: Path | None = None
    cluster_signing_kube_apiserver_client_key_file: Path | None = None
    cluster_signing_legacy_unknown_cert_file: Path | None = None
    cluster_signing_legacy_unknown_key_file: Path | None = None

    def __post_init__(self) -> None:
        if self.cluster_signing_duration < 1:
            raise SettingsError(
                "--cluster-signing-duration", "is less than a second; the usual value is 8760h"
            )
        general = self._pair("")
        for signer in SIGNERS:
            if self._pair(signer) and general:
                raise SettingsError(
                    "--cluster-signing-cert-file",
                    f"is for every signer, and --cluster-signing-{signer}-cert-file for one; "
                    "give one of them, or a file for each signer",
                )

    def files(self, names: Names) -> dict[str, AuthorityFiles]:
        """The CA files by signer, for signers that do not use the data folder's own CA."""
        signers = (names.serving_signer, names.node_client_signer, names.client_signer, names.legacy_signer)
        found = {
            name: self._pair(signer) or self._pair("") for name, signer in zip(signers, SIGNERS, strict=True)
        }
        return {signer: files for signer, files in found.items() if files}

    def _pair(self, signer: str) -> AuthorityFiles | None:
        middle = f"{signer}-" if signer else ""
        prefix = f"cluster_signing_{middle.replace('-', '_')}"
        certificate, key = getattr(self, f"{prefix}cert_file"), getattr(self, f"{prefix}key_file")
        flags = [f"--cluster-signing-{middle}{part}-file" for part in ("cert", "key")]
        if certificate is None and key is None:
            return None
        if key is None:
            raise SettingsError(flags[0], f"needs its key; give it with {flags[1]}")
        if certificate is None:
            raise SettingsError(flags[1], f"needs its certificate; give it with {flags[0]}")
        check_file(flags[0], certificate)
        check_file(flags[1], key)
        check_certificate_and_key(flags, certificate, key)
        from rewound.actors.certificates.signing import AuthorityFiles

        return AuthorityFiles(certificate, key)

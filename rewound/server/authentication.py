"""Builds the authentication by tokens of identity providers: from --authentication-config, or from the flags --oidc-*.

The file is read here at start, where an error ends it, and again by a task when it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rewound.actors.access.accounts.claims import AccountOptions
from rewound.actors.access.authentication.issuers import (
    Anonymous,
    AuthenticationConfiguration,
    ConfiguredIssuers,
    FollowedConfiguration,
    IssuerConfiguration,
)
from rewound.actors.access.authentication.oidc import OidcTokens, Provider
from rewound.actors.access.authentication.oidc_claims import ALGORITHMS
from rewound.actors.names import Names
from rewound.actors.runtime.clock import Clock
from rewound.actors.versions.features import IDS_OF_ISSUERS, features_of_files
from rewound.gateway.settings.access import CONFIGURATION_FLAG
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Task


def build_issuers(
    settings: Settings, names: Names, clock: Clock, options: AccountOptions, tasks: list[Task]
) -> tuple[ConfiguredIssuers | None, Anonymous | None]:
    """The issuers, and what the file says about anonymous requests. None without any."""
    path = settings.authentication.authentication_config
    if path is not None:
        return _of_file(path, settings, names, clock, options, tasks)
    if not settings.oidc.oidc_issuer_url:
        return None, None
    id_key = names.key("credential-id", "authentication") if IDS_OF_ISSUERS in settings.features else ""
    issuer = IssuerConfiguration(
        settings.oidc.claim_rules(settings.rules, id_key), authorities=settings.oidc.oidc_ca_file
    )
    configuration = AuthenticationConfiguration((issuer,))
    issuers = _issuers(configuration, settings.oidc.algorithms, clock, options.audiences)
    tasks.append(("keys of issuers", issuers.fetch_keys))
    return issuers, None


def _of_file(
    path: Path, settings: Settings, names: Names, clock: Clock, options: AccountOptions, tasks: list[Task]
) -> tuple[ConfiguredIssuers, Anonymous | None]:
    read = partial(_read, names, settings, options.issuers)
    try:
        contents = path.read_bytes()
        configuration = read(contents)
    except (OSError, ValueError) as error:
        raise SettingsError(CONFIGURATION_FLAG, f"{path}: {error}") from None
    if configuration.anonymous is not None and settings.anonymous_auth is not None:
        raise SettingsError(
            CONFIGURATION_FLAG,
            "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in "
            "authentication configuration file; leave one of them out",
        )
    issuers = _issuers(configuration, ALGORITHMS, clock, options.audiences)
    followed = FollowedConfiguration(path, contents, read, issuers, lambda: clock.now() / 1_000_000)
    tasks += [("keys of issuers", issuers.fetch_keys), ("authentication config", followed.run)]
    return issuers, configuration.anonymous


def _read(
    names: Names, settings: Settings, own_issuers: Sequence[str], contents: bytes
) -> AuthenticationConfiguration:
    from rewound.actors.access.authentication.configuration import (
        KIND,
        SCHEME,
        check_configuration,
        structs_of_file,
    )
    from rewound.server.configuration_file import decode_configuration

    if not contents:
        raise ValueError("empty config data")
    features = features_of_files(settings.dialect, settings.features)
    document = decode_configuration(contents, KIND, structs_of_file(names, features), SCHEME)
    lone_group = settings.rules.oidc_groups == "list-or-string"
    return check_configuration(document, names, features, own_issuers, lone_group=lone_group)


def _issuers(
    configuration: AuthenticationConfiguration,
    algorithms: Sequence[str],
    clock: Clock,
    audiences: Sequence[str],
) -> ConfiguredIssuers:
    from rewound.gateway.outgoing.webhook import HttpsCalls

    calls = HttpsCalls()

    def provider(one: IssuerConfiguration) -> Provider:
        return Provider(
            one.rules.issuer, one.authorities, calls, one.discovery_url, lambda: clock.now() / 1_000_000
        )

    def tokens(one: IssuerConfiguration, provider: Provider) -> OidcTokens:
        return OidcTokens(one.rules, provider, algorithms, clock, audiences)

    return ConfiguredIssuers(configuration, provider, tokens)

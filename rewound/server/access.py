"""Builds the authentication of one server from its settings; `authorization` beside it builds the rest of access.

`open_store` builds it before actors, admission and controllers, which call the authorizer too. Each method reads what
it needs (accounts, tokens, roles) from the journal and the feed. Methods and modes that need a flag are imported only
if it is given, so that other servers start faster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rewound.actors.access.accounts.keys import KeyFiles
from rewound.actors.access.accounts.tokens import build_accounts
from rewound.actors.access.authentication.authenticate import Authenticator, TokenMethod
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.identity import User
from rewound.actors.names import Names
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.followed_file import FollowedFiles
from rewound.actors.store.feed import Feed
from rewound.gateway.settings.access import TokenWebhookSettings
from rewound.gateway.settings.checks import check_parsed
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Access, Task
from rewound.journal.log import Journal
from rewound.server.authorization import Authorization
from rewound.server.extensions import Extensions

if TYPE_CHECKING:
    from rewound.actors.access.accounts.claims import AccountOptions
    from rewound.actors.access.authentication.issuers import Anonymous, ConfiguredIssuers


def build_access(
    settings: Settings, names: Names, journal: Journal, feed: Feed, clock: Clock, extensions: Extensions
) -> Access:
    files: list[FollowedFiles] = []
    tokens: dict[str, User] = {}
    if (path := settings.token_auth_file) is not None:
        from rewound.actors.access.authentication.token_file import read_tokens

        flag = "--token-auth-file"
        files.append(
            FollowedFiles(flag, [path], lambda _: partial(authenticator.replace_tokens, read_tokens(path)))
        )
        tokens = check_parsed(flag, lambda: read_tokens(path))
    options = replace(settings.service_accounts.options(names), features=settings.features)
    accounts = build_accounts(names, journal, feed, clock, _key_files(settings), options)
    tasks: list[Task] = []
    issuers, anonymous = _issuers(settings, names, clock, options, tasks)
    methods = _token_methods(settings, names, journal, clock)
    methods += [] if issuers is None else [issuers]
    methods += _token_webhook(settings.token_webhook, names, options.audiences, tasks, files)
    authenticator = Authenticator(
        tokens,
        anonymous=settings.allows_anonymous if anonymous is None else anonymous.enabled,
        anonymous_paths=frozenset() if anonymous is None else anonymous.paths,
        caching=accounts.tokens,
        methods=[*methods, *extensions.token_methods],
        request_headers=settings.request_headers.headers,
    )
    rbac = Rbac(stored_policy(names, journal, feed))
    authorization = Authorization(settings, names, journal, feed, rbac, extensions.authorizers)
    files += authorization.files
    tasks += [(one.flag.strip("-"), one.run) for one in files]
    return Access(
        authenticator,
        authorization.authorizer,
        accounts,
        rbac,
        options.audiences,
        authorization.statistics,
        authorization.authorizes_nodes,
        (*tasks, *authorization.tasks),
        issuers,
        tuple(files),
    )


def _token_methods(settings: Settings, names: Names, journal: Journal, clock: Clock) -> list[TokenMethod]:
    """The methods, in this order, for a bearer token that is neither in the token file nor of a service account."""
    own_audiences = settings.service_accounts.options(names).audiences
    methods: list[TokenMethod] = []
    if settings.controllers.enable_bootstrap_token_auth:
        from rewound.actors.access.authentication.bootstrap_tokens import BootstrapTokens

        methods.append(BootstrapTokens(names, journal, clock, own_audiences))
    return methods


def _issuers(
    settings: Settings, names: Names, clock: Clock, options: AccountOptions, tasks: list[Task]
) -> tuple[ConfiguredIssuers | None, Anonymous | None]:
    if not settings.oidc.oidc_issuer_url and settings.authentication.authentication_config is None:
        return None, None
    from rewound.server.authentication import build_issuers

    return build_issuers(settings, names, clock, options, tasks)


def _token_webhook(
    settings: TokenWebhookSettings,
    names: Names,
    audiences: tuple[str, ...],
    tasks: list[Task],
    files: list[FollowedFiles],
) -> list[TokenMethod]:
    """The webhook comes last, because it is the slowest method."""
    path = settings.authentication_token_webhook_config_file
    if path is None:
        return []
    from rewound.actors.access.authentication.token_webhook import TokenWebhook
    from rewound.actors.access.remote.target import follow_target, read_target
    from rewound.gateway.outgoing.webhook import HttpsWebhook

    flag = "--authentication-token-webhook-config-file"
    target = check_parsed(flag, lambda: read_target(path))
    webhook = HttpsWebhook(target)
    tasks.append(("webhook connections", webhook.run))
    files.append(follow_target(flag, path, target, webhook.replace))
    api_version = f"{names.group('authentication')}/{settings.authentication_token_webhook_version}"
    return [TokenWebhook(webhook, api_version, audiences, settings.authentication_token_webhook_cache_ttl)]


def _key_files(settings: Settings) -> KeyFiles:
    chosen = settings.service_accounts
    return KeyFiles(
        settings.pki / "sa.key",
        chosen.service_account_signing_key_file,
        chosen.key_files,
        settings.tls_private_key_file,
        is_shared=bool(settings.cluster.journal),
    )

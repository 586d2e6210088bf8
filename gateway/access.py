"""Authentication and authorization of one server, built from its settings: who makes a request, and what it may do.

`store` builds it before actors, admission and controllers, which ask the authorizer too. Every method reads what it
needs (accounts, tokens, roles) from the journal and the feed.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.access.authentication.authenticate import Authenticator
from actors.access.authentication.token_file import read_tokens
from actors.access.authorization.modes import authorizer
from actors.access.authorize import Authorizer
from actors.names import Names
from actors.store.feed import Feed
from gateway.extensions import Extensions
from gateway.settings.settings import Settings
from journal.log import Journal


@dataclass(frozen=True, slots=True)
class Access:
    authenticator: Authenticator
    authorizer: Authorizer


def build_access(
    settings: Settings, names: Names, journal: Journal, feed: Feed, extensions: Extensions
) -> Access:
    tokens = read_tokens(settings.token_auth_file) if settings.token_auth_file else {}
    authenticator = Authenticator(tokens, anonymous=settings.anonymous_auth, methods=extensions.token_methods)
    return Access(authenticator, authorizer(settings.authorization_mode, names, extensions.authorizers))

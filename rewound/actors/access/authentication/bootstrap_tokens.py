"""Authenticates bootstrap tokens: `<id>.<secret>`, whose Secret `bootstrap-token-<id>` is in the system namespace.

The Secret is read by its name with every request, so a token is rejected from the first request after its Secret was
deleted or changed. Text that does not have the form of a bootstrap token is never looked up.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.access.bootstrap_token import SECRET_PREFIX, parse_token, token_of
from rewound.actors.identity import User
from rewound.actors.names import Names
from rewound.actors.runtime.clock import Clock
from rewound.actors.store.document import decode, is_being_deleted
from rewound.journal.log import Journal


class BootstrapTokens:
    def __init__(self, names: Names, journal: Journal, clock: Clock, audiences: Sequence[str] = ()) -> None:
        """`audiences` are those of this server: a bootstrap token is valid for no other."""
        self._names = names
        self._journal = journal
        self._secrets = journal.type_id("secrets")
        self._clock = clock
        self._audiences = frozenset(audiences)

    def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Authenticated | None:
        accepted = tuple(one for one in audiences if one in self._audiences)
        parsed = None if audiences and not accepted else parse_token(token)
        if parsed is None:
            return None
        user = self._user(*parsed)
        return None if user is None else Authenticated(user, audiences=accepted)

    def _user(self, token_id: str, token_secret: str) -> User | None:
        with self._journal.read() as view:
            row = view.get(self._secrets, self._names.system_namespace, f"{SECRET_PREFIX}{token_id}")
        if row is None or is_being_deleted(row.body):
            return None
        found = token_of(decode(row.body), self._names)
        if found is None or not hmac.compare_digest(found.secret.encode(), token_secret.encode()):
            return None
        if found.expired(self._clock.now()) or not found.authenticates or found.groups is None:
            return None
        return User(f"system:bootstrap:{token_id}", groups=found.groups)

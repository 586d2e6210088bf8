"""An authorizer that allows everything and lists the users of all requests, for tests of authentication."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rewound.actors.access.authorize import Attributes, Decision, Rules, Verdict
from rewound.actors.identity import User
from rewound.server.extensions import Extensions
from tests.gateway.api import Api
from tests.gateway.https import served_securely

PATH = "/api/v1/namespaces/default/configmaps"


@dataclass
class SeenUsers:
    users: list[User] = field(default_factory=list)

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.path == PATH:
            self.users.append(attributes.user)
        return Decision(Verdict.ALLOW)

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()

    def last(self) -> User:
        """The user of the only request since the last call."""
        (user,) = self.users
        self.users.clear()
        return user


@asynccontextmanager
async def served_to_all(**changed: Any) -> AsyncIterator[tuple[Api, SeenUsers]]:
    """A server with a secure port that lets every authenticated user list config maps."""
    seen = SeenUsers()
    async with served_securely(extensions=Extensions(authorizers=[seen]), **changed) as api:
        yield api, seen

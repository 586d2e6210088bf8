"""Ends the watches of clients that have lost their rights: to watch, or to sign in.

A request is decided once, when it begins, and a watch lasts for up to an hour. `WatchRights` decides again for all open
watches when a role or binding has changed, and once a minute because a token or certificate may have expired, an
account may have been deleted, or the file of tokens or of policies may have changed. A caller that impersonates another
user must still be allowed to. Deliveries cost nothing. A watch ends like one whose timeout has passed: the client
watches again, and is refused. Only a definite answer ends a watch, never a webhook that does not respond.

Rejected: checking each event for its receivers, which would cost every delivery of every watcher; and following single
objects to find whose rights they concern, which roles of groups and webhooks make impossible.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from msgspec.structs import replace

from rewound.actors.access.authentication.authenticate import ANONYMOUS_USER, Authenticated, Authenticator
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorize import ALLOWED, Attributes, Authorizer, Decision
from rewound.actors.access.impersonation import WantedIdentity
from rewound.actors.errors import Forbidden, Unauthorized
from rewound.actors.identity import User
from rewound.gateway.watch.group import TURN
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.member import Grant

logger = logging.getLogger(__name__)

# Seconds between two checks at least and at most. Whoever changes one role often changes several: they are one change.
PAUSE: Final = 10.0
PERIOD: Final = 60.0
_SEVERAL_CHANGES: Final = 1.0


# The identity that a caller may assume (`actors.access.impersonation.impersonate`); raises Forbidden.
Impersonate = Callable[[User, WantedIdentity, Authorizer, Attributes], Awaitable[tuple[User, str]]]


class WatchRights:
    def __init__(
        self,
        hub: Hub,
        authenticator: Authenticator,
        authorizer: Authorizer,
        rbac: Rbac,
        now: Callable[[], int],
        impersonate: Impersonate,
    ) -> None:
        """`now` is in nanoseconds since 1970."""
        self._hub, self._authenticator, self._rbac, self._now = hub, authenticator, rbac, now
        self._authorizer = _InDoubtAllowed(authorizer)
        self._impersonate = impersonate
        self.ended = 0  # watches whose clients had lost their rights

    async def run(self) -> None:
        while True:
            with trio.move_on_after(PERIOD - PAUSE):
                await self._rbac.changed.wait()
            await trio.sleep(_SEVERAL_CHANGES)
            self._rbac.changed = trio.Event()
            await self.check()
            await trio.sleep(PAUSE - _SEVERAL_CHANGES)

    async def check(self) -> None:
        """Decide again for every open watch, in turns: there may be thousands, of a few users."""
        known: dict[Attributes, bool] = {}
        users: dict[bytes, User | None] = {}
        for number, member in enumerate(self._hub.members(), 1):
            if number % TURN == 0:
                await trio.lowlevel.checkpoint()
            if member.grant is None or member.ended:
                continue
            attributes = await self._attributes(member.grant, users)
            if attributes is not None and attributes not in known:
                known[attributes] = (await self._authorizer.authorize(attributes)).allowed
            if attributes is None or not known[attributes]:
                self.ended += 1
                member.end()

    async def _attributes(self, grant: Grant, users: dict[bytes, User | None]) -> Attributes | None:
        """The attributes of the watch with what is now known of the user; None if it could not be the user any more."""
        user = await self._caller(grant, users)
        if user is None or user.name != grant.caller.user.name:
            return None
        if grant.impersonated is not None:
            request = replace(grant.attributes, user=user)
            try:
                user, _ = await self._impersonate(user, grant.impersonated, self._authorizer, request)
            except Forbidden:
                return None
        return grant.attributes if user == grant.attributes.user else replace(grant.attributes, user=user)

    async def _caller(self, grant: Grant, users: dict[bytes, User | None]) -> User | None:
        """The user who signed in, with its groups of now; None if it could not sign in any more."""
        peer, header = grant.peer, grant.authorization
        expired = bool(peer.certificate_expires) and peer.certificate_expires <= self._now()
        if grant.caller.by_proxy:  # only the proxy knows more of the user
            return None if expired else grant.caller.user
        if peer.certificate is None and header is not None:
            if header not in users:
                users[header] = await self._user(grant, expired)
            return users[header]
        return await self._user(grant, expired)

    async def _user(self, grant: Grant, expired: bool) -> User | None:
        authenticator, peer, header = self._authenticator, grant.peer, grant.authorization
        before = grant.caller.user
        if before == ANONYMOUS_USER:
            return before  # as far as anonymous requests are allowed, which only a restart changes
        try:
            found = (
                authenticator.authenticate_expired(header)
                if expired
                else authenticator.authenticate(header, peer.certificate)
            )
            return (found if isinstance(found, Authenticated) else await found).user
        except Unauthorized:
            return None
        except Exception as error:  # a webhook or an identity provider does not respond
            logger.warning("whether %s may still sign in is not known: %s", before.name, error)
            return before


class _InDoubtAllowed:
    """Allows what an authorizer cannot decide, because a webhook does not respond."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self.rules = authorizer.rules

    async def authorize(self, attributes: Attributes) -> Decision:
        decision = self._authorizer.authorize(attributes)
        if not isinstance(decision, Decision):
            decision = await decision
        return ALLOWED if decision.error else decision

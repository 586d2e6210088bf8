"""Ends the watches of clients that have lost their rights: to watch, or to sign in.

A request is decided once, when it begins, and a watch lasts for up to an hour. `WatchRights` decides again for all open
watches when a role or binding has changed, and once a minute because a token or certificate may have expired, an
account may have been deleted, or the file of tokens or of policies may have changed. Deliveries cost nothing. A watch
ends like one whose timeout has passed: the client watches again, and is refused. Only a definite answer ends a watch,
never a webhook that does not respond.

Rejected: checking each event for its receivers, which would cost every delivery of every watcher; and following single
objects to find whose rights they concern, which roles of groups and webhooks make impossible.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import trio

from rewound.actors.access.authentication.authenticate import Authenticated, Authenticator
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.errors import Unauthorized
from rewound.actors.identity import User
from rewound.gateway.message import Peer
from rewound.gateway.watch.group import TURN
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.member import Grant

logger = logging.getLogger(__name__)

# Seconds between two checks at least and at most. Whoever changes one role often changes several: they are one change.
PAUSE: Final = 10.0
PERIOD: Final = 60.0
_SEVERAL_CHANGES: Final = 1.0


class WatchRights:
    def __init__(
        self,
        hub: Hub,
        authenticator: Authenticator,
        authorizer: Authorizer,
        rbac: Rbac,
        now: Callable[[], int],
    ) -> None:
        """`now` is in nanoseconds since 1970."""
        self._hub, self._authenticator, self._authorizer, self._rbac, self._now = (
            hub,
            authenticator,
            authorizer,
            rbac,
            now,
        )
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
            attributes = await self._signed_in(member.grant, users)
            if attributes is not None and attributes not in known:
                known[attributes] = await self._allows(attributes)
            if attributes is None or not known[attributes]:
                self.ended += 1
                member.end()

    async def _signed_in(self, grant: Grant, users: dict[bytes, User | None]) -> Attributes | None:
        """The attributes of the watch with what is now known of the user; None if it could not sign in any more."""
        peer, header = grant.peer, grant.authorization
        expired = bool(peer.certificate_expires) and peer.certificate_expires <= self._now()
        if peer.proxy_certificate is not None or (header is None and peer.certificate is None):
            # The headers of a proxy and the token of a WebSocket are not kept.
            return None if expired else grant.attributes
        if peer.certificate is None and header is not None:
            if header not in users:
                users[header] = await self._user(header, peer, expired, grant.attributes.user)
            user = users[header]
        else:
            user = await self._user(header, peer, expired, grant.attributes.user)
        if user is None or user.name != grant.user:
            return None
        attributes = grant.attributes
        if user.name != attributes.user.name or user == attributes.user:
            return attributes
        return replace(attributes, user=user)  # its groups have changed

    async def _user(self, header: bytes | None, peer: Peer, expired: bool, before: User) -> User | None:
        authenticator = self._authenticator
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

    async def _allows(self, attributes: Attributes) -> bool:
        decision = self._authorizer.authorize(attributes)
        if not isinstance(decision, Decision):
            decision = await decision
        return decision.allowed or bool(decision.error)

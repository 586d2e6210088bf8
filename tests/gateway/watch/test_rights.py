"""Open watches end when their clients lose their rights; nothing else ends them."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import cast

import trio

from rewound.actors.access.authentication.authenticate import Authenticated, Authenticator, Refused
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import RbacPolicy
from rewound.actors.access.authorize import Attributes, Authorizer, Decision, Verdict
from rewound.actors.access.remote.calls import WebhookError
from rewound.actors.identity import User
from rewound.gateway.message import Peer
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.member import Grant
from rewound.gateway.watch.rights import PERIOD, WatchRights

JANE = User("jane", groups=("system:authenticated",))


@dataclass(eq=False)
class Member:
    grant: Grant | None
    ended: bool = False

    def end(self) -> None:
        self.ended = True


@dataclass
class Rights:
    """What a test changes; it is the hub, the authorizer and a method of authentication at once."""

    open: list[Member] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)  # users
    error: str = ""
    asked: int = 0
    seconds: int = 0

    def members(self) -> list[Member]:
        return self.open

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        self.asked += 1
        if attributes.user.name in self.denied or "outcasts" in attributes.user.groups:
            return Decision(Verdict.NO_OPINION, error=self.error)
        return Decision(Verdict.ALLOW)

    def authenticate(
        self, token: bytes, audiences: tuple[str, ...]
    ) -> Awaitable[Authenticated | Refused] | None:
        async def fail() -> Authenticated:
            raise WebhookError("it does not respond")

        return fail() if token == b"webhooks-token" else None

    def watch(self, user: User = JANE, token: str = "t", signed_in: str = "", **peer: object) -> Member:
        header = f"Bearer {token}".encode() if token else None
        attributes = Attributes(user, "watch", "", "v1", "pods")
        grant = Grant(attributes, signed_in or user.name, header, Peer(**peer))  # type: ignore[arg-type]
        self.open.append(Member(grant))
        return self.open[-1]

    def rights(self) -> tuple[WatchRights, Authenticator, Rbac]:
        authenticator = Authenticator({"t": User("jane")}, anonymous=True, methods=[self])
        rbac = Rbac(RbacPolicy("rbac"))
        authorizer = cast("Authorizer", self)
        made = WatchRights(cast("Hub", self), authenticator, authorizer, rbac, lambda: self.seconds * 10**9)
        return made, authenticator, rbac


async def test_watches_of_a_user_without_rights_end_and_others_go_on() -> None:
    state = Rights(denied={"jane"})
    rights, _, _ = state.rights()
    watches = [state.watch() for _ in range(3)]
    other = state.watch(User("joe"), token="")
    impersonated = state.watch(User("jim"), signed_in="jane")
    await rights.check()
    assert [one.ended for one in watches] == [True] * 3
    assert not other.ended and not impersonated.ended
    assert (rights.ended, state.asked) == (3, 3)  # once for each user


async def test_a_webhook_that_does_not_respond_ends_nothing() -> None:
    state = Rights(denied={"jane"}, error="timeout")
    rights, _, _ = state.rights()
    watches = [state.watch(), state.watch(token="webhooks-token")]
    await rights.check()
    assert [one.ended for one in watches] == [False, False]


async def test_watches_end_with_the_token_its_user_and_its_groups() -> None:
    state = Rights()
    rights, authenticator, _ = state.rights()
    watch, impersonating = state.watch(), state.watch(User("jim"), signed_in="jane")
    authenticator.replace_tokens({"t": User("jane", groups=("outcasts",))})
    await rights.check()
    assert watch.ended and not impersonating.ended
    authenticator.replace_tokens({"t": User("joe")})
    await rights.check()
    assert impersonating.ended
    gone = state.watch()
    authenticator.replace_tokens({})
    await rights.check()
    assert gone.ended


async def test_watches_end_when_the_certificate_expires() -> None:
    state = Rights(seconds=99)
    rights, _, _ = state.rights()
    subject = {"subject": ((("commonName", "jane"),),)}
    own = state.watch(token="", certificate=subject, certificate_expires=100 * 10**9)
    proxied = state.watch(token="", proxy_certificate=subject, certificate_expires=100 * 10**9)
    await rights.check()
    assert not own.ended and not proxied.ended
    state.seconds = 100
    await rights.check()
    assert own.ended and proxied.ended


async def test_a_change_of_roles_counts_in_seconds_and_everything_else_in_a_minute(
    autojump_clock: trio.testing.MockClock,
) -> None:
    state = Rights()
    rights, _, rbac = state.rights()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rights.run)
        watch = state.watch()
        await trio.sleep(2)
        state.denied.add("jane")
        rbac.policy.changed()
        await trio.sleep(2)
        assert watch.ended
        watch = state.watch()
        await trio.sleep(PERIOD + 1)
        assert watch.ended
        nursery.cancel_scope.cancel()

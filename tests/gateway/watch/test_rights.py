"""Open watches end when their clients lose their rights; nothing else ends them."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import cast

import trio

from rewound.actors.access.authentication.authenticate import Authenticated, Authenticator, Refused
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import RbacPolicy
from rewound.actors.access.authorize import Attributes, Authorizer, Decision, Rules, Verdict
from rewound.actors.access.impersonation import WantedIdentity, impersonate
from rewound.actors.access.remote.calls import WebhookError
from rewound.actors.identity import User
from rewound.actors.names import KUBERNETES
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
    protected: set[str] = field(default_factory=set)  # users whom nobody may impersonate
    error: str = ""
    asked: int = 0
    seconds: int = 0

    def members(self) -> list[Member]:
        return self.open

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        self.asked += 1
        if attributes.verb == "impersonate":
            return Decision(Verdict.NO_OPINION if attributes.name in self.protected else Verdict.ALLOW)
        if attributes.user.name in self.denied or "outcasts" in attributes.user.groups:
            return Decision(Verdict.NO_OPINION, error=self.error)
        return Decision(Verdict.ALLOW)

    def authenticate(
        self, token: bytes, audiences: tuple[str, ...]
    ) -> Awaitable[Authenticated | Refused] | None:
        async def fail() -> Authenticated:
            raise WebhookError("it does not respond")

        return fail() if token == b"webhooks-token" else None

    def watch(
        self,
        user: User = JANE,
        token: str = "t",
        impersonated: str = "",
        by_proxy: bool = False,
        **peer: object,
    ) -> Member:
        header = f"Bearer {token}".encode() if token else None
        wanted = WantedIdentity(impersonated) if impersonated else None
        attributes = Attributes(User(impersonated) if impersonated else user, "watch", "", "v1", "pods")
        caller = Authenticated(user, by_proxy=by_proxy)
        grant = Grant(attributes, caller, header, Peer(**peer), wanted)  # type: ignore[arg-type]
        self.open.append(Member(grant))
        return self.open[-1]

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()

    async def impersonate(
        self, caller: User, wanted: WantedIdentity, authorizer: Authorizer, request: Attributes
    ) -> tuple[User, str]:
        assert request.user == caller
        return await impersonate(caller, wanted, authorizer, KUBERNETES)

    def rights(self) -> tuple[WatchRights, Authenticator, Rbac]:
        authenticator = Authenticator({"t": User("jane")}, anonymous=True, methods=[self])
        rbac = Rbac(RbacPolicy("rbac"))
        authorizer = cast("Authorizer", self)
        now = lambda: self.seconds * 10**9  # noqa: E731
        made = WatchRights(cast("Hub", self), authenticator, authorizer, rbac, now, self.impersonate)
        return made, authenticator, rbac


async def test_watches_of_a_user_without_rights_end_and_others_go_on() -> None:
    state = Rights(denied={"jane"})
    rights, _, _ = state.rights()
    watches = [state.watch() for _ in range(3)]
    other = state.watch(User("joe"), token="", by_proxy=True)
    impersonated = state.watch(impersonated="jim")
    await rights.check()
    assert [one.ended for one in watches] == [True] * 3
    assert not other.ended and not impersonated.ended
    assert (rights.ended, state.asked) == (3, 4)  # once for each user, and for the right to impersonate
    state.protected.add("jim")
    await rights.check()
    assert impersonated.ended and not other.ended


async def test_a_webhook_that_does_not_respond_ends_nothing() -> None:
    state = Rights(denied={"jane"}, error="timeout")
    rights, _, _ = state.rights()
    watches = [state.watch(), state.watch(token="webhooks-token")]
    await rights.check()
    assert [one.ended for one in watches] == [False, False]


async def test_watches_end_with_the_token_its_user_and_its_groups() -> None:
    state = Rights()
    rights, authenticator, _ = state.rights()
    watch, impersonating = state.watch(), state.watch(impersonated="jim")
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
    proxied = state.watch(token="", by_proxy=True, proxy_certificate=subject, certificate_expires=100 * 10**9)
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

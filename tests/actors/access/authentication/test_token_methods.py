"""Bearer tokens that are not static: methods are tried in order, with or without awaiting; the first success wins."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio

from rewound.actors.access.authentication.authenticate import Authenticated, Authenticator, TokenMethod
from rewound.actors.errors import Unauthorized
from rewound.actors.identity import User

BOB = User("bob", "7", ("ops",), (("scopes", ("read", "write")),))
SIGNED_IN = User("bob", "7", ("ops", "system:authenticated"), (("scopes", ("read", "write")),))


class Known:
    """Accepts one token, without an awaitable."""

    def __init__(self, token: bytes, user: User = BOB) -> None:
        self.token = token
        self.user = user
        self.calls: list[tuple[str, ...]] = []

    def authenticate(
        self, token: bytes, audiences: tuple[str, ...]
    ) -> Authenticated | Awaitable[Authenticated | None] | None:
        self.calls.append(audiences)
        return self._found(token, audiences)

    def _found(self, token: bytes, audiences: tuple[str, ...]) -> Authenticated | None:
        return Authenticated(self.user, audiences=audiences) if token == self.token else None


class Slow(Known):
    def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Awaitable[Authenticated | None]:
        self.calls.append(audiences)
        return self._wait(token, audiences)

    async def _wait(self, token: bytes, audiences: tuple[str, ...]) -> Authenticated | None:
        await trio.sleep(10)
        return self._found(token, audiences)


def authenticator(*methods: TokenMethod) -> Authenticator:
    return Authenticator({"static": User("alice")}, anonymous=True, methods=methods)


async def authenticate(header: bytes, *methods: TokenMethod) -> Authenticated:
    found = authenticator(*methods).authenticate(header, None)
    return found if isinstance(found, Authenticated) else await found


@pytest.mark.parametrize("kind", [Known, Slow])
async def test_first_success_wins(kind: type[Known], autojump_clock: trio.testing.MockClock) -> None:
    first, second, third = kind(b"other"), kind(b"t"), kind(b"t", User("carol"))
    assert (await authenticate(b"Bearer t", first, second, third)).user == SIGNED_IN
    assert (len(first.calls), len(second.calls), len(third.calls)) == (1, 1, 0)


@pytest.mark.parametrize("kind", [Known, Slow])
async def test_token_that_no_method_accepts_is_refused(
    kind: type[Known], autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(Unauthorized):
        await authenticate(b"Bearer unknown", kind(b"t"), Known(b"u"))


async def test_method_after_a_slow_one_is_called(autojump_clock: trio.testing.MockClock) -> None:
    assert (await authenticate(b"Bearer t", Slow(b"other"), Known(b"t"))).user == SIGNED_IN


def test_known_token_needs_no_coroutine() -> None:
    slow = Slow(b"t")
    assert isinstance(authenticator(slow).authenticate(b"Bearer static", None), Authenticated)
    assert isinstance(authenticator(Known(b"t"), slow).authenticate(b"bearer t", None), Authenticated)
    assert isinstance(authenticator(slow).authenticate(None, None), Authenticated)
    assert slow.calls == []


async def test_audiences_are_passed_to_methods_and_returned() -> None:
    method = Known(b"static")
    found = authenticator(method).by_token(b"static", ("vault",))
    assert found == Authenticated(SIGNED_IN, audiences=("vault",)), "static tokens are for this server alone"
    assert method.calls == [("vault",)]

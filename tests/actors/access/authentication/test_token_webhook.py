"""An HTTPS webhook authenticates tokens: its requests, the meaning of its responses, and how long they are cached."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rewound.actors.access.authentication.authenticate import Authenticated, Outcome, Refused
from rewound.actors.access.authentication.token_webhook import TokenWebhook
from rewound.actors.identity import User
from tests.gateway.outgoing.calling import calling
from tests.gateway.outgoing.https_peer import Peer, Received, Reply, https_peer

VERSION = "authentication.cluster.io/v1beta1"
OWN = ("https://api",)
EVERYONE = ("system:authenticated",)
JANE = {"username": "jane", "uid": "42", "groups": ["devs"], "extra": {"scope": ["a", "b"]}}


def review(**status: Any) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": "TokenReview", "status": status}


@asynccontextmanager
async def webhook(
    tmp_path: Path, respond: Callable[[Received], Any]
) -> AsyncIterator[tuple[Peer, TokenWebhook]]:
    async with https_peer(respond) as peer, calling(peer.kubeconfig(tmp_path)) as caller:
        yield peer, TokenWebhook(caller, VERSION, OWN, 120)


async def result(method: TokenWebhook, token: bytes = b"t", *audiences: str) -> Outcome:
    found = method.authenticate(token, audiences)
    return found if found is None or isinstance(found, Authenticated | Refused) else await found


async def test_user_of_the_response_is_taken_over(tmp_path: Path) -> None:
    async with webhook(tmp_path, lambda _: review(authenticated=True, user=JANE)) as (peer, method):
        user = User("jane", "42", ("devs", "system:authenticated"), (("scope", ("a", "b")),))
        assert await result(method) == Authenticated(user, audiences=OWN)
        assert peer.received[0].document == {
            "apiVersion": VERSION,
            "kind": "TokenReview",
            "spec": {"token": "t", "audiences": ["https://api"]},
        }
        assert peer.received[0].client == "client"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"authenticated": True, "user": {"username": "j"}, "error": "ignored"}, User("j", "", EVERYONE)),
        ({"authenticated": True, "user": {"uid": "1"}}, Refused("the token webhook named no user")),
        ({"authenticated": True}, Refused("the token webhook named no user")),
        ({"authenticated": False, "error": "expired", "user": JANE}, Refused("expired")),
        ({"authenticated": False}, Refused()),
        ({}, Refused()),
        ({"authenticated": "true", "user": JANE}, Refused()),
    ],
)
async def test_what_a_status_means(tmp_path: Path, status: dict[str, Any], expected: User | Refused) -> None:
    async with webhook(tmp_path, lambda _: review(**status)) as (_, method):
        found = await result(method)
        assert (found.user if isinstance(found, Authenticated) else found) == expected


async def test_spec_of_a_response_is_ignored(tmp_path: Path) -> None:
    response = {**review(authenticated=True, user=JANE), "spec": {"token": 3}}
    async with webhook(tmp_path, lambda _: response) as (_, method):
        assert isinstance(await result(method), Authenticated)


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        ((), None, OWN),
        ((), ["https://api", "x"], OWN),
        ((), ["x"], None),
        (("https://api", "vault"), None, OWN),
        (("vault",), None, None),
        (("vault", "x"), ["x", "y"], ("x",)),
        (("vault",), ["x"], None),
    ],
)
async def test_token_is_valid_only_for_audiences_of_the_review(
    tmp_path: Path, wanted: tuple[str, ...], held: list[str] | None, expected: tuple[str, ...] | None
) -> None:
    status = {"authenticated": True, "user": JANE, **({} if held is None else {"audiences": held})}
    async with webhook(tmp_path, lambda _: review(**status)) as (peer, method):
        found = await result(method, b"t", *wanted)
        assert (found.audiences if isinstance(found, Authenticated) else None) == expected
        assert peer.received[0].document["spec"]["audiences"] == list(wanted or OWN)


@pytest.mark.parametrize("authenticated", [True, False])
async def test_yes_and_no_are_used_again_for_the_time(
    tmp_path: Path, authenticated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with webhook(tmp_path, lambda _: review(authenticated=authenticated, user=JANE)) as (peer, method):
        first = await result(method)
        autojump_clock.jump(119)
        assert method.authenticate(b"t", ()) is first, "a cached result needs no coroutine"
        assert len(peer.received) == 1
        await result(method, b"other")
        await result(method, b"t", "vault")
        assert len(peer.received) == 3, "another token and other audiences are other questions"
        autojump_clock.jump(2)
        await result(method)
        assert len(peer.received) == 4


async def test_failures_are_not_used_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    replies: list[Any] = [Reply(400), review(authenticated=True, user=JANE)]
    async with webhook(tmp_path, lambda _: replies.pop(0)) as (_, method):
        failed = await result(method, b"s3cret")
        assert isinstance(failed, Refused) and "responded with status 400" in failed.reason
        assert "responded with status 400" in caplog.text and "s3cret" not in caplog.text
        assert isinstance(await result(method, b"s3cret"), Authenticated)


@pytest.mark.parametrize(
    "response",
    [
        {
            "apiVersion": "authentication.cluster.io/v1",
            "kind": "TokenReview",
            "status": {"authenticated": True},
        },
        review(authenticated=True, user=[]),
        review(authenticated=True, user={"username": 3}),
        review(authenticated=True, user={"username": "j", "uid": 3}),
        review(authenticated=True, user={"username": "j", "groups": "devs"}),
        review(authenticated=True, user={"username": "j", "groups": [3]}),
        review(authenticated=True, user={"username": "j", "extra": {"a": "b"}}),
        review(authenticated=True, user={"username": "j", "extra": []}),
        review(authenticated=True, user={"username": "j"}, audiences="x"),
    ],
)
async def test_response_of_another_form_is_a_failure(tmp_path: Path, response: dict[str, Any]) -> None:
    async with webhook(tmp_path, lambda _: response) as (peer, method):
        assert isinstance(await result(method), Refused)
        assert isinstance(await result(method), Refused)
        assert len(peer.received) == 2, "not cached"


async def test_one_call_at_a_time_per_token(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async def respond(received: Received) -> Any:
        await trio.sleep(5)
        return review(authenticated=True, user={"username": received.document["spec"]["token"]})

    found: list[str] = []

    async def ask(token: bytes) -> None:
        outcome = await result(method, token)
        assert isinstance(outcome, Authenticated)
        found.append(outcome.user.name)

    async with webhook(tmp_path, respond) as (peer, method):
        async with trio.open_nursery() as nursery:
            for token in (b"a", b"a", b"b", b"a"):
                nursery.start_soon(ask, token)
        assert sorted(found) == ["a", "a", "a", "b"] and len(peer.received) == 2


async def test_reason_is_logged_without_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with webhook(tmp_path, lambda _: review(error="too old\nforged line")) as (_, method):
        await result(method, b"s3cret")
    assert "too old\\nforged line" in caplog.text and "s3cret" not in caplog.text


async def test_token_that_json_cannot_carry_is_not_sent(tmp_path: Path) -> None:
    async with webhook(tmp_path, lambda _: review(authenticated=True, user=JANE)) as (peer, method):
        assert await result(method, b"\xff") is None and peer.received == []


async def test_response_of_very_many_values_is_refused_unread(tmp_path: Path) -> None:
    async with webhook(tmp_path, lambda _: review(authenticated=True, user=JANE, more=[[]] * 30_000)) as (
        _,
        method,
    ):
        found = await result(method)
        assert isinstance(found, Refused) and "the response has more than 20000 values" in found.reason
    groups = [f"group-{number}" for number in range(5_000)]
    user = {**JANE, "groups": groups}
    async with webhook(tmp_path, lambda _: review(authenticated=True, user=user)) as (_, method):
        assert isinstance(await result(method), Authenticated)

"""An HTTPS webhook authorizes requests: its requests, the meaning of its responses, and how long they are cached."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from rewound.actors.access.authorization.webhook import MAX_CACHED_LENGTH, WebhookAuthorizer
from rewound.actors.access.authorize import Attributes, Decision, Verdict
from rewound.actors.identity import User
from tests.gateway.outgoing.calling import calling
from tests.gateway.outgoing.https_peer import Peer, Received, Reply, https_peer

GROUP = "authorization.cluster.io"
JANE = User("jane", "42", ("devs", "system:authenticated"), (("scope", ("a",)),))
LOGS = Attributes(JANE, "get", "apps", "v1", "pods", "log", "x", "a", "/the/path")


def review(version: str = "v1", **status: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "SubjectAccessReview", "status": status}


@asynccontextmanager
async def webhook(
    tmp_path: Path, respond: Callable[[Received], Any], version: str = "v1"
) -> AsyncIterator[tuple[Peer, WebhookAuthorizer]]:
    async with https_peer(respond) as peer, calling(peer.kubeconfig(tmp_path)) as caller:
        yield peer, WebhookAuthorizer(caller, GROUP, version, 300, 30)


async def decide(authorizer: WebhookAuthorizer, attributes: Attributes = LOGS) -> Decision:
    decision = authorizer.authorize(attributes)
    return decision if isinstance(decision, Decision) else await decision


@pytest.mark.parametrize(("version", "field"), [("v1", "groups"), ("v1beta1", "group")])
async def test_review_has_all_attributes(tmp_path: Path, version: str, field: str) -> None:
    async with webhook(tmp_path, lambda _: review(version, allowed=True), version) as (peer, authorizer):
        assert (await decide(authorizer)).allowed
        assert peer.received[0].client == "client"
        assert peer.received[0].document == {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "SubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "namespace": "x",
                    "verb": "get",
                    "group": "apps",
                    "version": "v1",
                    "resource": "pods",
                    "subresource": "log",
                    "name": "a",
                },
                "user": "jane",
                field: ["devs", "system:authenticated"],
                "extra": {"scope": ["a"]},
                "uid": "42",
            },
        }


async def test_review_has_selectors_of_a_list_if_the_feature_is_on(tmp_path: Path) -> None:
    listed = replace(LOGS, verb="list", field_selector="a=b", label_selector="x in (1,2),!y,z>3")
    async with webhook(tmp_path, lambda _: review(allowed=True)) as (peer, authorizer):
        await decide(authorizer, listed)
        authorizer.selectors = True
        await decide(authorizer, listed)
    before, now = (one.document["spec"]["resourceAttributes"] for one in peer.received)
    assert not {"fieldSelector", "labelSelector"} & before.keys()
    assert now["fieldSelector"] == {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}
    assert now["labelSelector"] == {
        "requirements": [
            {"key": "x", "operator": "In", "values": ["1", "2"]},
            {"key": "y", "operator": "DoesNotExist"},
        ]
    }


async def test_review_of_a_path(tmp_path: Path) -> None:
    async with webhook(tmp_path, lambda _: review(allowed=True)) as (peer, authorizer):
        await decide(authorizer, Attributes(User("bob"), "get", path="/metrics", is_resource=False))
        spec = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}, "user": "bob"}
        assert peer.received[0].document["spec"] == spec


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allowed": True}, Decision(Verdict.ALLOW)),
        ({"allowed": False, "reason": "no"}, Decision(Verdict.NO_OPINION, "no")),
        ({}, Decision(Verdict.NO_OPINION)),
        ({"denied": True, "reason": "never"}, Decision(Verdict.DENY, "never")),
        (
            {"allowed": True, "denied": True},
            Decision(Verdict.DENY, "", "webhook subject access review returned both allow and deny response"),
        ),
    ],
)
async def test_what_a_status_means(tmp_path: Path, status: dict[str, Any], expected: Decision) -> None:
    async with webhook(tmp_path, lambda _: review(**status)) as (_, authorizer):
        assert await decide(authorizer) == expected


@pytest.mark.parametrize(("allowed", "seconds"), [(True, 300), (False, 30)])
async def test_decisions_are_used_again_for_their_time(
    tmp_path: Path, allowed: bool, seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    async with webhook(tmp_path, lambda _: review(allowed=allowed)) as (peer, authorizer):
        first = await decide(authorizer)
        autojump_clock.jump(seconds - 1)
        assert authorizer.authorize(LOGS) is first, "a cached decision needs no coroutine"
        assert authorizer.authorize(replace(LOGS, path="/other")) is first, "the path is not in the spec"
        assert len(peer.received) == 1
        for other in (
            replace(LOGS, name="b"),
            replace(LOGS, user=User("jane", "43", JANE.groups, JANE.extra)),
            replace(LOGS, user=User("jane", "42", JANE.groups)),
        ):
            await decide(authorizer, other)
        assert len(peer.received) == 4
        autojump_clock.jump(2)
        await decide(authorizer)
        assert len(peer.received) == 5


@pytest.mark.parametrize(
    "large",
    [
        replace(LOGS, name="n" * MAX_CACHED_LENGTH),
        replace(LOGS, user=User("jane", groups=("g" * MAX_CACHED_LENGTH,))),
        replace(LOGS, user=User("jane", extra=(("scope", ("e" * MAX_CACHED_LENGTH,)),))),
    ],
    ids=["name", "groups", "extra"],
)
async def test_large_specs_are_not_cached(tmp_path: Path, large: Attributes) -> None:
    async with webhook(tmp_path, lambda _: review(allowed=True)) as (peer, authorizer):
        await decide(authorizer, large)
        await decide(authorizer, large)
        assert len(peer.received) == 2


async def test_failure_is_no_opinion_with_an_error_and_not_cached(tmp_path: Path) -> None:
    replies: list[Any] = [Reply(403), review("v1beta1", allowed=True), review(allowed=True)]
    async with webhook(tmp_path, lambda _: replies.pop(0)) as (_, authorizer):
        failed = await decide(authorizer)
        assert (failed.verdict, failed.reason) == (Verdict.NO_OPINION, "")
        assert "responded with status 403" in failed.error
        assert "not 'authorization.cluster.io/v1'" in (await decide(authorizer)).error
        assert (await decide(authorizer)).allowed


async def test_rules_are_unknown(tmp_path: Path) -> None:
    async with webhook(tmp_path, lambda _: review()) as (peer, authorizer):
        rules = await authorizer.rules(JANE, "x")
        assert rules.errors == ("webhook authorizer does not support user rule resolution",)
        assert rules.resources == rules.paths == () and peer.received == []

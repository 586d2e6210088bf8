"""Servers with each --authorization-mode: who may do what over HTTP, and what access reviews report."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rewound.gateway.settings.access import AuthorizationSettings
from rewound.gateway.settings.checks import SettingsError
from rewound.server.flags.parser import parse_flags
from tests.gateway.api import ADMIN, ALICE, Api, served, settings
from tests.gateway.outgoing.https_peer import Peer, Received, Reply, https_peer

PODS = "/api/v1/namespaces/default/pods"
REVIEWS = "/apis/authorization.cluster.io/v1"
POLICY = (
    '{"apiVersion":"abac.authorization.cluster.io/v1beta1","kind":"Policy",'
    '"spec":{"user":"*","namespace":"default","resource":"pods","readonly":true}}\n'
)


def policies(tmp_path: Path, text: str = POLICY) -> AuthorizationSettings:
    file = tmp_path / "policies.jsonl"
    file.write_text(text)
    return AuthorizationSettings(authorization_policy_file=file)


async def review_of_alice(api: Api, verb: str) -> dict[str, object]:
    """The status of a SubjectAccessReview of alice that the administrator creates."""
    attributes = {"verb": verb, "resource": "pods", "namespace": "default"}
    spec = {"resourceAttributes": attributes, "user": "alice", "groups": ["system:authenticated"]}
    made = await api.ask("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    status: dict[str, object] = made.expect(201)["status"]
    return status


async def test_abac_allows_what_the_file_allows(tmp_path: Path) -> None:
    async with served(authorization_mode="ABAC", authorization=policies(tmp_path)) as api:
        assert (await api.ask("GET", PODS, token=ALICE)).status == 200
        refused = (await api.ask("DELETE", PODS, token=ALICE)).expect(403)
        assert refused["message"].endswith('in the namespace "default": No policy matched.')
        assert (await api.ask("GET", PODS, token=None)).status == 403
        assert (await api.ask("DELETE", PODS, token=ADMIN)).status == 200
        assert await review_of_alice(api, "get") == {"allowed": True}
        assert await review_of_alice(api, "create") == {"allowed": False, "reason": "No policy matched."}


async def test_modes_decide_one_after_the_other(tmp_path: Path) -> None:
    async with served(authorization_mode="RBAC,ABAC", authorization=policies(tmp_path)) as api:
        assert (await api.ask("GET", PODS, token=ALICE)).status == 200
        assert (await api.ask("GET", "/version", token=None)).status == 200


async def test_always_deny_allows_system_masters_only() -> None:
    async with served(authorization_mode="AlwaysDeny") as api:
        assert (await api.ask("GET", PODS, token=ADMIN)).status == 200
        refused = (await api.ask("GET", PODS, token=ALICE)).expect(403)
        assert refused["message"].endswith(": Everything is forbidden.")
        assert (await api.ask("GET", "/version", token=ALICE)).status == 403


def test_always_allow_in_a_list_with_anonymous_auth_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--anonymous-auth"):
        settings(tmp_path, authorization_mode="RBAC,AlwaysAllow", anonymous_auth=True)


async def test_bad_policy_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises((SettingsError, ExceptionGroup)) as raised:
        async with served(authorization_mode="ABAC", authorization=policies(tmp_path, "{")):
            pass
    assert "policies.jsonl, line 1: is not JSON" in repr(raised.value)


@asynccontextmanager
async def webhook_server(
    tmp_path: Path, respond: Callable[[Received], Any], mode: str = "Webhook"
) -> AsyncIterator[tuple[Peer, Api]]:
    async with https_peer(respond) as peer:
        file = peer.kubeconfig(tmp_path)
        webhook = AuthorizationSettings(
            authorization_webhook_config_file=file, authorization_webhook_version="v1"
        )
        async with served(authorization_mode=mode, authorization=webhook) as api:
            yield peer, api


def access(**status: Any) -> Callable[[Received], Any]:
    return lambda received: {**received.document, "status": status}


async def test_webhook_decides(tmp_path: Path) -> None:
    async with webhook_server(tmp_path, access(allowed=True)) as (peer, api):
        assert (await api.ask("GET", PODS, token=ALICE)).status == 200
        assert (await api.ask("GET", PODS, token=ALICE)).status == 200
        assert [one.document["spec"]["user"] for one in peer.received] == ["alice"]
        assert peer.received[0].document["spec"]["resourceAttributes"]["verb"] == "list"
        assert (await api.ask("DELETE", PODS, token=ADMIN)).status == 200
        assert len(peer.received) == 1, "system:masters does not need the webhook"


@pytest.mark.parametrize(
    ("status", "reported"),
    [
        ({"reason": "ask bob"}, {"allowed": False, "reason": "ask bob"}),
        ({"denied": True, "reason": "never"}, {"allowed": False, "denied": True, "reason": "never"}),
    ],
)
async def test_webhook_that_does_not_allow(
    tmp_path: Path, status: dict[str, Any], reported: dict[str, Any]
) -> None:
    async with webhook_server(tmp_path, access(**status), "Webhook,RBAC") as (_, api):
        refused = (await api.ask("GET", PODS, token=ALICE)).expect(403)
        assert refused["message"].endswith(f": {status['reason']}")
        assert await review_of_alice(api, "get") == reported
        version = await api.ask("GET", "/version", token=None)
        assert version.status == (403 if "denied" in status else 200), "RBAC decides after no opinion"


async def test_failed_webhook_is_no_opinion_with_an_error(tmp_path: Path) -> None:
    async with webhook_server(tmp_path, lambda _: Reply(400), "Webhook,RBAC") as (_, api):
        assert (await api.ask("GET", "/version", token=None)).status == 200
        failed = (await api.ask("GET", PODS, token=ALICE)).expect(500)
        assert failed["reason"] == "InternalError" and "responded with status 400" in failed["message"]
        status = await review_of_alice(api, "get")
        assert status["allowed"] is False and "responded with status 400" in str(status["evaluationError"])


async def test_rules_review_says_that_the_webhook_lists_none(tmp_path: Path) -> None:
    async with webhook_server(tmp_path, access(allowed=True)) as (_, api):
        path, spec = f"{REVIEWS}/selfsubjectrulesreviews", {"namespace": "default"}
        made = await api.ask("POST", path, {"spec": spec}, token=ALICE)
        assert made.expect(201)["status"] == {
            "resourceRules": [],
            "nonResourceRules": [],
            "incomplete": True,
            "evaluationError": "webhook authorizer does not support user rule resolution",
        }


def test_flags_and_their_defaults(tmp_path: Path) -> None:
    file = tmp_path / "hook.yaml"
    file.write_text("")
    flags = ["--authorization-mode=Node,Webhook", f"--authorization-webhook-config-file={file}"]
    assert parse_flags(flags)[0].authorization == AuthorizationSettings(
        authorization_webhook_config_file=file,
        authorization_webhook_cache_authorized_ttl=300.0,
        authorization_webhook_cache_unauthorized_ttl=30.0,
        authorization_webhook_version="v1beta1",
    )
    more = [
        "--authorization-mode=RBAC",
        "--authorization-webhook-cache-authorized-ttl=1m",
        "--authorization-webhook-cache-unauthorized-ttl=0s",
        "--authorization-webhook-version=v1",
    ]
    settings = parse_flags([*flags, *more])[0]
    assert settings.authorization_modes == ("Node", "Webhook", "RBAC")
    assert settings.authorization == AuthorizationSettings(
        authorization_webhook_config_file=file,
        authorization_webhook_cache_authorized_ttl=60.0,
        authorization_webhook_cache_unauthorized_ttl=0.0,
        authorization_webhook_version="v1",
    )

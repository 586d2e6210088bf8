"""Webhooks are called for creates whose object is never stored: reviews, bindings, evictions, token requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.webhooks.hooking import DENY, Hooks, adding, hooking

AUTHORIZATION = "/apis/authorization.cluster.io/v1"
DEFAULT = "/api/v1/namespaces/default"
PODS = {"verb": "get", "resource": "pods", "namespace": "default"}
ACCESS: dict[str, Any] = {"spec": {"user": "alice", "resourceAttributes": PODS}}


def rule(resource: str, group: str = "", version: str = "v1") -> dict[str, Any]:
    return {"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]}


def hook_of(hooks: Hooks, resource: str, group: str = "", path: str = "/allow") -> dict[str, Any]:
    return hooks.hook("a.example.com", path, rules=[rule(resource, group)])


@pytest.mark.parametrize(
    ("resource", "path", "body"),
    [
        ("subjectaccessreviews", f"{AUTHORIZATION}/subjectaccessreviews", ACCESS),
        (
            "localsubjectaccessreviews",
            f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews",
            ACCESS,
        ),
        (
            "selfsubjectaccessreviews",
            f"{AUTHORIZATION}/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": PODS}},
        ),
        (
            "selfsubjectrulesreviews",
            f"{AUTHORIZATION}/selfsubjectrulesreviews",
            {"spec": {"namespace": "default"}},
        ),
        (
            "tokenreviews",
            "/apis/authentication.cluster.io/v1/tokenreviews",
            {"spec": {"token": "t"}},
        ),
    ],
)
async def test_reviews_are_reviewed_and_may_be_refused(
    resource: str, path: str, body: dict[str, Any]
) -> None:
    group = path.split("/")[2]
    async with hooking(deny=DENY) as hooks:
        await hooks.configure("validating", hook_of(hooks, resource, group))
        made = (await hooks.api.ask("POST", path, body)).expect(201)
        [sent] = hooks.requests
        assert sent["operation"] == "CREATE" and sent["resource"]["resource"] == resource
        assert sent["object"]["spec"] == {**sent["object"]["spec"], **body["spec"]}
        assert sent["oldObject"] is None and sent["object"]["status"].keys() <= made["status"].keys()
        assert not any(sent["object"]["status"].values()), "it is not decided yet"
        await hooks.remove("validating")
        await hooks.configure("validating", hook_of(hooks, resource, group, "/deny"))
        refused = (await hooks.api.ask("POST", path, body)).expect(400)
        assert "denied the request" in refused["message"]


async def test_review_is_answered_as_the_webhook_changed_it() -> None:
    async with hooking(patch=adding("/spec/user", "system:admin")) as hooks:
        group = "authorization.cluster.io"
        await hooks.configure("mutating", hook_of(hooks, "subjectaccessreviews", group, "/patch"))
        made = (await hooks.api.ask("POST", f"{AUTHORIZATION}/subjectaccessreviews", ACCESS)).expect(201)
        assert made["spec"]["user"] == "system:admin"


async def test_invalid_review_is_not_sent_to_validating_webhooks() -> None:
    async with hooking() as hooks:
        await hooks.configure("validating", hook_of(hooks, "*", "*"))
        path = f"{AUTHORIZATION}/subjectaccessreviews"
        (await hooks.api.ask("POST", path, {"spec": {"user": "alice"}})).expect(422)
        assert hooks.requests == []


async def test_access_review_does_not_say_which_namespaces_exist() -> None:
    async with hooking() as hooks:
        path = f"{AUTHORIZATION}/namespaces/none/localsubjectaccessreviews"
        spec = {"user": "alice", "resourceAttributes": {**PODS, "namespace": "none"}}
        (await hooks.api.ask("POST", path, {"spec": spec})).expect(201)


async def test_bindings_evictions_and_token_requests() -> None:
    async with hooking(deny=DENY) as hooks:
        await hooks.api.create("serviceaccounts", {"metadata": {"name": "account"}})
        containers = [{"name": "c", "image": "i"}]
        await hooks.api.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": containers}})
        everything = [
            rule("pods/binding"),
            rule("pods/eviction"),
            rule("serviceaccounts/token"),
            rule("bindings"),
        ]
        await hooks.configure("validating", hooks.hook("a.example.com", "/deny", rules=everything))
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        eviction = {"metadata": {"name": "p"}}
        for path, body, kind in (
            ("pods/p/binding", binding, "Binding"),
            ("bindings", binding, "Binding"),
            ("pods/p/eviction", eviction, "Eviction"),
            ("serviceaccounts/account/token", {"spec": {}}, "TokenRequest"),
        ):
            refused = (await hooks.api.ask("POST", f"{DEFAULT}/{path}", body)).expect(400)
            assert "denied the request" in refused["message"], path
            assert hooks.requests[-1]["object"]["kind"] == kind
            assert hooks.requests[-1]["operation"] == "CREATE"
        assert hooks.requests[-1]["object"]["status"] == {"token": "", "expirationTimestamp": None}


async def test_eviction_is_not_reviewed_as_a_deletion() -> None:
    async with hooking(deny=DENY) as hooks:
        containers = [{"name": "c", "image": "i"}]
        await hooks.api.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": containers}})
        for kind in ("mutating", "validating"):
            await hooks.configure(kind, hook_of(hooks, "pods", path="/deny"))
        (await hooks.api.ask("DELETE", f"{DEFAULT}/pods/p")).expect(400)
        (await hooks.api.ask("POST", f"{DEFAULT}/pods/p/eviction", {"metadata": {"name": "p"}})).expect(201)
        (await hooks.api.ask("GET", f"{DEFAULT}/pods/p")).expect(404)


async def test_binding_is_reviewed_before_the_pod_is_looked_at() -> None:
    async with hooking(deny=DENY) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/deny", rules=[rule("*/*")]))
        binding: dict[str, Any] = {"metadata": {"name": "missing"}, "target": {"kind": "Node", "name": "n"}}
        for path, resource in (("bindings", "bindings"), ("pods/missing/binding", "pods")):
            (await hooks.api.ask("POST", f"{DEFAULT}/{path}", binding)).expect(400)
            assert hooks.requests[-1]["resource"]["resource"] == resource
            assert ("subResource" in hooks.requests[-1]) == (resource == "pods")
            invalid = {**binding, "target": {"kind": "Node"}}
            (await hooks.api.ask("POST", f"{DEFAULT}/{path}", invalid)).expect(422)
        assert len(hooks.requests) == 2, "an invalid one is not reviewed"

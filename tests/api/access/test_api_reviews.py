"""Reviews over HTTP: returned with their status, decided by the authorizers of requests, and never stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import cases
from tests.gateway.api import ALICE, Api, served
from tests.gateway.shared_server import shared

AUTHORIZATION = "/apis/authorization.cluster.io/v1"
TOKEN_REVIEWS = "/apis/authentication.cluster.io/v1/tokenreviews"
PODS = {"verb": "get", "resource": "pods", "namespace": "default"}


async def status(api: Api, path: str, spec: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    more = {"token": token} if token else {}
    made = (await api.ask("POST", path, {"spec": spec}, **more)).expect(201)
    assert made["metadata"]["creationTimestamp"] is None and "uid" not in made["metadata"]
    expected: dict[str, Any] = made["status"]
    return expected


async def test_self_subject_access_review() -> None:
    async with served() as api:
        path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
        assert await status(api, path, {"resourceAttributes": PODS}) == {"allowed": True}
        assert await status(api, path, {"resourceAttributes": PODS}, ALICE) == {"allowed": False}
        discovery = '"system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"'
        reason = f"RBAC: allowed by ClusterRoleBinding {discovery}"
        for where, expected in (
            ("/apis/x", {"allowed": True, "reason": reason}),
            ("/metrics", {"allowed": False}),
        ):
            spec = {"nonResourceAttributes": {"verb": "get", "path": where}}
            assert await status(api, path, spec, ALICE) == expected
        (await api.ask("POST", path, {"spec": {"resourceAttributes": PODS}}, token=None)).expect(403)


async def test_subject_access_review() -> None:
    async with served() as api:
        spec = {"resourceAttributes": PODS, "user": "x"}
        for path in (
            f"{AUTHORIZATION}/subjectaccessreviews",
            f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews",
        ):
            assert await status(api, path, spec) == {"allowed": False}
            assert await status(api, path, {**spec, "groups": ["system:masters"]}) == {"allowed": True}
            (await api.ask("POST", path, {"spec": spec}, token=ALICE)).expect(403)


@cases(
    ("sent", "shown"),
    [
        ({"extra": {"k": None}}, {"extra": {"k": None}}),
        ({"extra": {"k": None, "l": ["x"]}}, {"extra": {"k": None, "l": ["x"]}}),
        ({"extra": {"k": [None]}, "groups": [None]}, {"extra": {"k": [""]}, "groups": [""]}),
        ({"extra": None, "groups": None, "uid": None, "nonResourceAttributes": None}, {}),
    ],
)
@cases("representation", ["application/json", "application/vnd.cluster.protobuf"])
async def test_nil_slices_of_go_clients_are_empty(
    sent: dict[str, Any], shown: dict[str, Any], representation: str
) -> None:
    async with shared() as api:
        spec = {"resourceAttributes": PODS, "user": "x"}
        for path in (
            f"{AUTHORIZATION}/subjectaccessreviews",
            f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews",
        ):
            accept = {"accept": representation}
            made = await api.ask("POST", path, {"spec": {**spec, **sent}}, headers=accept)
            assert made.status == 201, made.text
            if representation == "application/json":
                assert made.document["spec"] == {**spec, **shown}
                assert made.document["status"] == {"allowed": False}


async def test_self_subject_rules_review() -> None:
    async with served() as api:
        path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
        everything = await status(api, path, {"namespace": "default"})
        assert everything["resourceRules"][0] == {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        assert everything["nonResourceRules"][0] == {"verbs": ["*"], "nonResourceURLs": ["*"]}
        assert everything["incomplete"] is False
        own = await status(api, path, {"namespace": "default"}, ALICE)
        assert [rule["resources"] for rule in own["resourceRules"]] == [
            ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
        ]
        assert all(rule["verbs"] == ["get"] for rule in own["nonResourceRules"])
        refused = (await api.ask("POST", path, {"spec": {}})).expect(400)
        assert refused["message"] == "no namespace on request"


async def test_token_review() -> None:
    async with served() as api:
        alice = {"username": "alice", "uid": "2", "groups": ["devs", "system:authenticated"]}
        own = "https://kubernetes.default.svc.cluster.local"
        valid = {"authenticated": True, "user": alice, "audiences": [own]}
        assert await status(api, TOKEN_REVIEWS, {"token": ALICE}) == valid
        assert await status(api, TOKEN_REVIEWS, {"token": ALICE, "audiences": ["vault", own]}) == valid
        unknown = {"user": {}, "error": "invalid bearer token"}
        assert await status(api, TOKEN_REVIEWS, {"token": "no"}) == unknown
        assert await status(api, TOKEN_REVIEWS, {"token": ALICE, "audiences": ["vault"]}) == unknown
        (await api.ask("POST", TOKEN_REVIEWS, {"spec": {}})).expect(400)


async def test_reviews_are_not_stored() -> None:
    async with shared() as api:
        head = await api.head()
        await status(api, f"{AUTHORIZATION}/selfsubjectaccessreviews", {"resourceAttributes": PODS})
        await status(api, TOKEN_REVIEWS, {"token": "no"})
        assert await api.head() == head
        for method in ("GET", "DELETE"):
            (await api.ask(method, TOKEN_REVIEWS)).expect(405)
            (await api.ask(method, f"{TOKEN_REVIEWS}/x")).expect(404)


async def test_invalid_review_names_the_field() -> None:
    async with shared() as api:
        path = f"{AUTHORIZATION}/subjectaccessreviews"
        refused = (await api.ask("POST", path, {"spec": {"user": "x"}})).expect(422)
        assert refused["details"]["causes"][0]["field"] == "spec.resourceAttributes"
        assert "kind" not in refused["details"] and "name" not in refused["details"]
        unknown = {"spec": {"user": "x", "resourceAttributes": {**PODS, "colour": "red"}}}
        response = await api.ask("POST", path, unknown)
        assert response.warnings == ['299 - "unknown field \\"spec.resourceAttributes.colour\\""']
        strict = (await api.ask("POST", path, unknown, fieldValidation="Strict")).expect(400)
        assert "spec.resourceAttributes.colour" in strict["message"]


@cases("form", ["Table", "PartialObjectMetadata"])
@cases(
    ("path", "spec"),
    [
        (f"{AUTHORIZATION}/selfsubjectaccessreviews", {"resourceAttributes": PODS}),
        (f"{AUTHORIZATION}/selfsubjectrulesreviews", {"namespace": "default"}),
        (TOKEN_REVIEWS, {"token": "x"}),
    ],
)
async def test_review_cannot_be_a_table(path: str, spec: dict[str, Any], form: str) -> None:
    async with shared() as api:
        accept = f"application/json;as={form};v=v1;g=meta.cluster.io"
        refused = await api.ask("POST", path, {"spec": spec}, headers={"accept": accept})
        assert refused.expect(406)["message"] == (
            "only the following media types are accepted: application/json, application/yaml, "
            "application/vnd.cluster.protobuf"
        )
        either = {"accept": f"{accept}, application/json"}
        made = (await api.ask("POST", path, {"spec": spec}, headers=either)).expect(201)
        assert made["kind"].endswith("Review")


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_older_version_of_token_reviews_is_served_on_request(dialect: str) -> None:
    group = {"cluster": "authentication.cluster.io", "kubernetes": "authentication.k8s.io"}[dialect]
    path = f"/apis/{group}/v1beta1/tokenreviews"
    settings = {"runtime_config": f"{group}/v1beta1=true", "kubernetes_version": "1.25"}
    async with served(dialect=dialect, **settings) as api:
        made = (await api.ask("POST", path, {"spec": {"token": ALICE}})).expect(201)
        assert (made["apiVersion"], made["kind"]) == (f"{group}/v1beta1", "TokenReview")
        assert made["status"]["user"]["username"] == "alice"
        listed = (await api.ask("GET", f"/apis/{group}")).expect(200)
        assert [one["version"] for one in listed["versions"]] == ["v1", "v1beta1"]
        other = {"apiVersion": f"{group}/v1", "kind": "TokenReview", "spec": {"token": ALICE}}
        (await api.ask("POST", path, other)).expect(400)
    async with served(dialect=dialect) as api:
        (await api.ask("POST", path, {"spec": {"token": ALICE}})).expect(404)


async def test_reviews_of_1_36() -> None:
    """Users of requests, selectors in access reviews, and no null for the creation time."""
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        me = (await api.ask("POST", path, {})).expect(201)
        assert me["status"]["userInfo"]["username"] == "admin"
        assert "system:authenticated" in me["status"]["userInfo"]["groups"]
        assert me["metadata"].keys() == {"creationTimestamp"}
        listed = PODS | {"verb": "list", "fieldSelector": {"requirements": [UNKNOWN, ONE]}}
        made = (await api.ask("POST", reviews, {"spec": {"resourceAttributes": listed}})).expect(201)
        assert made["metadata"].keys() == {"managedFields"}
        text = "spec.resourceAttributes.fieldSelector partially ignored due to parse error"
        assert made["status"] == {"allowed": True, "evaluationError": text}
        wrong = PODS | {"labelSelector": {"rawSelector": "a=b", "requirements": [ONE]}}
        refused = (await api.ask("POST", reviews, {"spec": {"resourceAttributes": wrong}})).expect(422)
        assert "may not specified at the same time as requirements" in refused["message"]


ONE = {"key": "spec.nodeName", "operator": "In", "values": ["n1"]}
UNKNOWN = {"key": "spec.nodeName", "operator": "Like", "values": ["n1"]}

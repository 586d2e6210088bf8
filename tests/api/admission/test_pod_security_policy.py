"""PodSecurityPolicy: which policy decides, who may use it, and what happens without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rewound.server.extensions import Extensions
from tests.api.admission.audited import annotations_of_pods, audited
from tests.gateway.api import ALICE, Api, ApiResponse, served
from tests.gateway.granting import Grants

PATH = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/policy/v1beta1/podsecuritypolicies"
ANNOTATION = "cluster.io/psp"
ANY = {"rule": "RunAsAny"}
OPEN = {"runAsUser": ANY, "fsGroup": ANY, "supplementalGroups": ANY, "seLinux": ANY, "volumes": ["*"]}
MERGE = {"content-type": "application/merge-patch+json"}
PODS = [
    ("alice", "create", "pods", ""),
    ("alice", "create", "pods", "any"),
    ("alice", "patch", "pods", "any"),
]


def may_use(user: str, policy: str) -> tuple[str, str, str, str]:
    return user, "use", "podsecuritypolicies", policy


@asynccontextmanager
async def started(*rights: tuple[str, str, str, str], **changed: Any) -> AsyncIterator[tuple[Api, Grants]]:
    grants = Grants(*PODS, *rights)
    async with served(
        extensions=Extensions(authorizers=[grants]), enable_admission_plugins="PodSecurityPolicy", **changed
    ) as api:
        yield api, grants


async def create_policy(api: Api, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {**OPEN, **spec}}
    (await api.ask("POST", POLICIES, body)).expect(201)


async def create(api: Api, name: str, token: str = ALICE, **context: Any) -> ApiResponse:
    container = {"name": "c", "image": "i", "securityContext": context}
    body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    return await api.ask("POST", PATH, body, token=token)


def message(response: ApiResponse) -> str:
    return str(response.expect(403)["message"]).partition("PodSecurityPolicy: ")[2]


async def test_pods_are_refused_without_a_policy() -> None:
    """A policy that the user may not use, or whose rule lacks its ranges, does not count."""
    async with started(may_use("alice", "wrong")) as (api, _):
        assert message(await create(api, "a")) == "no providers available to validate pod request"
        await create_policy(api, "wrong", runAsUser={"rule": "MustRunAs"})
        assert message(await create(api, "a")) == "no providers available to validate pod request"
        await create_policy(api, "other")
        assert message(await create(api, "a")) == "unable to admit pod: []"


@pytest.mark.parametrize("user", ["alice", "system:serviceaccount:default:default"])
async def test_creator_or_account_must_be_allowed_to_use_the_policy(user: str) -> None:
    async with started() as (api, grants):
        await create_policy(api, "open")
        assert (await create(api, "a")).status == 403
        grants.rights.add(may_use(user, "open"))
        made = (await create(api, "a")).expect(201)
        assert made["metadata"]["annotations"][ANNOTATION] == "open"


async def test_policy_that_changes_nothing_is_preferred() -> None:
    rights = [may_use("alice", name) for name in ("a-changes", "b-changes", "c-keeps")]
    async with started(*rights) as (api, grants):
        for name, drop in (("a-changes", ["KILL"]), ("b-changes", ["MKNOD"])):
            await create_policy(api, name, requiredDropCapabilities=drop)
        await create_policy(api, "c-keeps")
        made = (await create(api, "a")).expect(201)
        assert made["metadata"]["annotations"][ANNOTATION] == "c-keeps"
        grants.rights.remove(may_use("alice", "c-keeps"))
        made = (await create(api, "b")).expect(201)
        assert made["metadata"]["annotations"][ANNOTATION] == "a-changes"
        capabilities = made["spec"]["containers"][0]["securityContext"]["capabilities"]
        assert capabilities == {"drop": ["KILL"]}


async def test_refusal_shows_errors_of_policies_that_may_be_used() -> None:
    async with started(may_use("alice", "one"), may_use("alice", "two")) as (api, _):
        for name in ("one", "two", "unknown"):
            await create_policy(api, name)
        text = (
            "spec.containers[0].securityContext.privileged: Invalid value: true: "
            "Privileged containers are not allowed"
        )
        assert message(await create(api, "a", privileged=True)) == f"unable to admit pod: [{text} {text}]"


async def test_updates_are_checked_and_change_nothing() -> None:
    async with started(may_use("alice", "open")) as (api, grants):
        await create_policy(api, "open")
        (await create(api, "a")).expect(201)

        async def update(**metadata: Any) -> ApiResponse:
            body = {"metadata": metadata}
            return await api.ask("PATCH", f"{PATH}/a", body, token=ALICE, headers=MERGE)

        updated = (await update(labels={"x": "1"})).expect(200)
        assert updated["metadata"]["annotations"][ANNOTATION] == "open"
        grants.rights.remove(may_use("alice", "open"))
        assert message(await update(labels={"x": "2"})) == "unable to validate pod: []"
        (await update(finalizers=["example.com/f"])).expect(200)


async def test_audit_event_names_the_policy(tmp_path: Path) -> None:
    async with started(may_use("alice", "open"), audit=audited(tmp_path)) as (api, _):
        await create_policy(api, "open")
        (await create(api, "a")).expect(201)
    prefix = "podsecuritypolicy.policy.cluster.io"
    assert annotations_of_pods(tmp_path, prefix) == [
        {f"{prefix}/admit-policy": "open", f"{prefix}/validate-policy": "open"}
    ]


async def test_large_pods_are_evaluated_too() -> None:
    async with started(may_use("alice", "drops")) as (api, _):
        await create_policy(api, "drops", requiredDropCapabilities=["KILL"])
        containers = [{"name": f"c{index}", "image": "i" * 200} for index in range(1000)]
        body = {"metadata": {"name": "a"}, "spec": {"containers": containers}}
        made = (await api.ask("POST", PATH, body, token=ALICE)).expect(201)
        dropped = [one["securityContext"]["capabilities"]["drop"] for one in made["spec"]["containers"]]
        assert dropped == [["KILL"]] * 1000

"""Users cannot grant rights that they do not have, to themselves or others: by a role, a binding, or an aggregated
role.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.actors.access.authorization.policies import binding, role, rule, user
from tests.gateway.api import ALICE, Api, served

GROUP = "rbac.authorization.cluster.io"
WRITES = "create update patch get delete"
SECRETS = rule("get list", "secrets")
ALL = rule("*", "*", "*")
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}


@asynccontextmanager
async def granted(*more: dict[str, Any]) -> AsyncIterator[Api]:
    """A server where alice may write all RBAC kinds everywhere, and has these additional rights."""
    async with served() as api:
        kinds = rule(WRITES, "roles rolebindings clusterroles clusterrolebindings", GROUP)
        await api.create("clusterroles", role("own", kinds, *more))
        await api.create("clusterrolebindings", binding("own", "own", user("alice")))
        yield api


async def refused(api: Api, method: str, path: str, body: dict[str, Any], **more: Any) -> str:
    head = await api.head()
    status = (await api.ask(method, path, body, token=ALICE, **more)).expect(403)
    assert status["reason"] == "Forbidden" and await api.head() == head
    return str(status["message"])


def held(kind: str, name: str, *missing: str) -> str:
    return (
        f'{kind}.{GROUP} "{name}" is forbidden: user "alice" (groups=["devs" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n" + "\n".join(missing)
    )


MISSING = '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'


@pytest.mark.parametrize("plural", ["roles", "clusterroles"])
async def test_a_role_above_ones_own_is_refused_in_every_way(plural: str) -> None:
    async with granted() as api:
        path = api.path(plural)
        assert await refused(api, "POST", path, role("r", SECRETS)) == held(plural, "r", MISSING)
        assert await refused(api, "PUT", f"{path}/r", role("r", SECRETS)) == held(plural, "r", MISSING)
        applied = {"apiVersion": f"{GROUP}/v1", "kind": plural.title(), **role("r", SECRETS)}
        applied["kind"] = "Role" if plural == "roles" else "ClusterRole"
        sent = {"headers": APPLY, "fieldManager": "m", "force": "true"}
        assert await refused(api, "PATCH", f"{path}/r", applied, **sent) == held(plural, "r", MISSING)
        (await api.ask("POST", path, role("r"), token=ALICE)).expect(201)
        patch = {"rules": [SECRETS]}
        assert await refused(api, "PATCH", f"{path}/r", patch, headers=MERGE) == held(plural, "r", MISSING)
        assert await refused(api, "PUT", f"{path}/r", role("r", SECRETS)) == held(plural, "r", MISSING)
        assert await refused(api, "PATCH", f"{path}/r", applied, **sent) == held(plural, "r", MISSING)
        dry = await refused(api, "POST", path, role("q", SECRETS), dryRun="All")
        assert dry == held(plural, "q", MISSING)


async def test_only_what_is_missing_is_named_and_what_is_held_may_be_granted() -> None:
    async with granted(rule("get", "secrets"), rule("list", "pods", names="a")) as api:
        path = api.path("roles")
        message = await refused(api, "POST", path, role("r", SECRETS, rule("list", "pods", names="a b")))
        assert message == held(
            "roles",
            "r",
            '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["list"]}',
            '{APIGroups:[""], Resources:["secrets"], Verbs:["list"]}',
        )
        (await api.ask("POST", path, role("r", rule("get", "secrets")), token=ALICE)).expect(201)
        named = role("n", rule("get", "secrets", names="x"), rule("list", "pods", names="a"))
        (await api.ask("POST", path, named, token=ALICE)).expect(201)


async def test_labels_of_a_role_above_ones_own_are_refused_but_finalizers_are_not() -> None:
    async with granted() as api:
        await api.create("roles", role("r", SECRETS))
        path = api.path("roles", name="r")
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert await refused(api, "PATCH", path, labels, headers=MERGE) == held("roles", "r", MISSING)
        finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
        (await api.ask("PATCH", path, finalizers, token=ALICE, headers=MERGE)).expect(200)


@pytest.mark.parametrize(
    ("plural", "kind"),
    [("rolebindings", "Role"), ("rolebindings", "ClusterRole"), ("clusterrolebindings", "ClusterRole")],
)
async def test_a_binding_to_a_role_above_ones_own_is_refused(plural: str, kind: str) -> None:
    async with granted() as api:
        await api.create(f"{kind.lower()}s", role("r", SECRETS))
        path = api.path(plural)
        bound = binding("b", "r", user("alice"), kind=kind)
        assert await refused(api, "POST", path, bound) == held(plural, "b", MISSING)
        assert await refused(api, "PUT", f"{path}/b", bound) == held(plural, "b", MISSING)
        await api.create(plural, binding("b", "r", user("bob"), kind=kind))
        patch = {"subjects": [user("alice")]}
        assert await refused(api, "PATCH", f"{path}/b", patch, headers=MERGE) == held(plural, "b", MISSING)
        own = binding("c", "own", user("bob"), kind="ClusterRole")
        (await api.ask("POST", path, own, token=ALICE)).expect(201)


async def test_rollback_and_undelete_give_no_right_back() -> None:
    past = rule("create", "clusterroles/rollback clusterrolebindings/undelete", GROUP)
    async with granted(past) as api:
        made = await api.create("clusterroles", role("r", SECRETS))
        await api.replace("clusterroles", role("r"))
        await api.create("clusterrolebindings", binding("b", "cluster-admin", user("alice")))
        await api.delete("clusterrolebindings", "b")
        root = "/apis/rewound.cluster.io/v1"
        to: dict[str, Any] = {"to": made["metadata"]["resourceVersion"]}
        for body in (to, to | {"fields": ["rules"]}):
            message = await refused(api, "POST", f"{root}/clusterroles.{GROUP}/r/rollback", body)
            assert message == held("clusterroles", "r", MISSING)
        message = await refused(api, "POST", f"{root}/clusterrolebindings.{GROUP}/b/undelete", {})
        assert "attempting to grant RBAC permissions not currently held" in message


async def test_a_binding_to_a_missing_role_is_not_found() -> None:
    async with granted() as api:
        for kind in ("Role", "ClusterRole"):
            bound = binding("b", "nowhere", user("alice"), kind=kind)
            status = (await api.ask("POST", api.path("rolebindings"), bound, token=ALICE)).expect(404)
            assert status["message"] == f'{kind.lower()}s.{GROUP} "nowhere" not found'


async def test_escalate_and_bind_lift_the_checks_for_what_they_name() -> None:
    escalate = rule("escalate", "clusterroles", GROUP, names="r")
    bind = rule("bind", "clusterroles", GROUP, names="r")
    async with granted(escalate, bind) as api:
        await api.create("clusterroles", role("r"))
        await api.create("clusterroles", role("other", SECRETS))
        path = api.path("clusterroles")
        (await api.ask("PUT", f"{path}/r", role("r", SECRETS), token=ALICE)).expect(200)
        await refused(api, "PUT", f"{path}/other", role("other", ALL))
        await refused(api, "POST", path, role("new", SECRETS))
        bindings = api.path("clusterrolebindings")
        (await api.ask("POST", bindings, binding("b", "r", user("bob")), token=ALICE)).expect(201)
        await refused(api, "POST", bindings, binding("c", "other", user("bob")))
        await api.delete("clusterroles", "r")
        await refused(api, "POST", path, role("r", SECRETS))  # the name of a new object is not authorized


async def test_an_aggregation_rule_needs_all_rights() -> None:
    needs = f'clusterroles.{GROUP} "r" is forbidden: must have cluster-admin privileges to use the aggregationRule'
    aggregation = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    async with granted() as api:
        path = api.path("clusterroles")
        assert await refused(api, "POST", path, {**role("r"), **aggregation}) == needs
        await api.create("clusterroles", role("r"))
        assert await refused(api, "PATCH", f"{path}/r", aggregation, headers=MERGE) == needs
        await api.ask("PATCH", f"{path}/r", aggregation, headers=MERGE)
        without = {"aggregationRule": None}
        assert await refused(api, "PATCH", f"{path}/r", without, headers=MERGE) == needs
    everything = (ALL, {"verbs": ["*"], "nonResourceURLs": ["*"]})
    async with granted(*everything) as api:
        made = await api.ask("POST", api.path("clusterroles"), {**role("r"), **aggregation}, token=ALICE)
        made.expect(201)


async def test_an_aggregated_role_cannot_be_made_to_gain_a_right() -> None:
    """A role with the label of the default role `edit` would give its rules to everybody who may edit."""
    async with granted() as api:
        source = role("source", SECRETS)
        source["metadata"]["labels"] = {f"{GROUP}/aggregate-to-edit": "true"}
        await refused(api, "POST", api.path("clusterroles"), source)
        await api.create("clusterroles", role("source", ALL))
        label = {"metadata": {"labels": source["metadata"]["labels"]}}
        await refused(api, "PATCH", api.path("clusterroles", name="source"), label, headers=MERGE)
        edit = await api.get("clusterroles", "edit")
        assert ALL not in edit["rules"]


async def test_refusal_comes_before_validation() -> None:
    async with granted() as api:
        invalid = role("r", SECRETS, {"verbs": [], "apiGroups": [""], "resources": ["pods"]})
        assert await refused(api, "POST", api.path("roles"), invalid) == held("roles", "r", MISSING)


async def test_missing_roles_of_the_caller_are_named() -> None:
    async with granted() as api:
        await api.create("clusterrolebindings", binding("gone", "gone", user("alice")))
        message = await refused(api, "POST", api.path("roles"), role("r", SECRETS))
        assert message.endswith(f'{MISSING}; resolution errors: [clusterroles.{GROUP} "gone" not found]')


async def test_rules_with_long_lists_are_refused_with_a_short_message() -> None:
    async with granted() as api:
        many = [f"v{number}" for number in range(400)]
        huge = {"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}
        message = await refused(api, "POST", api.path("roles"), role("r", huge))
        assert len(message) < 65_536


async def test_roles_that_a_thread_decides_are_checked_too() -> None:
    async with granted(rule("get", "pods")) as api:
        path = api.path("roles")
        held_rights = role("large", *[rule("get", "pods", names=f"n{number}") for number in range(1500)])
        (await api.ask("POST", path, held_rights, token=ALICE)).expect(201)
        await refused(api, "POST", path, role("q", *held_rights["rules"], SECRETS))
        added = {"rules": [*held_rights["rules"], SECRETS]}
        message = await refused(api, "PATCH", f"{path}/large", added, headers=MERGE)
        assert message == held("roles", "large", MISSING)


async def test_a_right_holds_from_the_first_request_after_the_reply() -> None:
    async with served() as api:
        path = api.path("configmaps")
        for number in range(5):
            (await api.ask("GET", path, token=ALICE)).expect(403)
            await api.create("roles", role(f"r{number}", rule("list", "configmaps")))
            await api.create("rolebindings", binding("b", f"r{number}", user("alice"), kind="Role"))
            (await api.ask("GET", path, token=ALICE)).expect(200)
            if number % 2:
                await api.delete("rolebindings", "b")
            else:
                await api.delete("roles", f"r{number}")
                status = (await api.ask("GET", path, token=ALICE)).expect(403)
                assert status["message"].endswith(f': RBAC: role.{GROUP} "r{number}" not found')
                await api.delete("rolebindings", "b")

"""Roles and bindings of more than 64 kB, which a thread compiles, grant and revoke rights like small ones."""

from __future__ import annotations

from typing import Any

import orjson
import trio
import trio.testing
from msgspec.structs import replace

from rewound.actors.access.authorization.rbac.policy import LARGE
from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.identity import User
from tests.actors.access.authorization.policies import binding, group, rbac, role, rule, user
from tests.gateway.api import ALICE, Api, served

CONFIG_MAPS = rule("list", "configmaps")
MANY_RULES = [rule("get", f"things{number}", "example.com") for number in range(1200)]
MANY_USERS = [user(f"user-with-a-long-name-{number}") for number in range(1200)]


def large_role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    made = role(name, *MANY_RULES, *rules)
    assert len(str(made)) > LARGE
    return made


def large_binding(name: str, role_name: str, *subjects: dict[str, Any]) -> dict[str, Any]:
    made = binding(name, role_name, *MANY_USERS, *subjects, kind="Role")
    assert len(str(made)) > LARGE
    return made


async def status(api: Api) -> int:
    return (await api.ask("GET", api.path("configmaps"), token=ALICE)).status


async def test_large_roles_and_bindings_grant_and_take_away_rights_at_once() -> None:
    async with served() as api:
        await api.create("roles", large_role("r", CONFIG_MAPS))
        assert await status(api) == 403
        await api.create("rolebindings", large_binding("b", "r", group("devs")))
        assert await status(api) == 200
        await api.replace("roles", large_role("r"))
        assert await status(api) == 403
        await api.replace("roles", role("r", CONFIG_MAPS))
        assert await status(api) == 200
        await api.replace("rolebindings", large_binding("b", "r"))
        assert await status(api) == 403
        await api.replace("rolebindings", binding("b", "r", user("alice"), kind="Role"))
        assert await status(api) == 200
        await api.replace("rolebindings", large_binding("b", "r", user("alice")))
        assert await status(api) == 200
        await api.delete("rolebindings", "b")
        assert await status(api) == 403


async def test_they_hold_after_a_restart(tmp_path: Any) -> None:
    async with served(tmp_path) as api:
        await api.create("roles", large_role("r", CONFIG_MAPS))
        await api.create("rolebindings", large_binding("b", "r", group("devs")))
        await api.restart()
        assert await status(api) == 200
        await api.delete("roles", "r")
        assert await status(api) == 403


async def test_rules_reviews_list_their_rules() -> None:
    async with served() as api:
        await api.create("roles", large_role("r", CONFIG_MAPS))
        await api.create("rolebindings", large_binding("b", "r", group("devs")))
        path = "/apis/authorization.cluster.io/v1/selfsubjectrulesreviews"
        review = await api.ask("POST", path, {"spec": {"namespace": "default"}}, token=ALICE)
        assert CONFIG_MAPS in review.expect(201)["status"]["resourceRules"]


async def test_only_decisions_that_need_them_wait() -> None:
    authorizer = rbac(defaults=False)
    policy = authorizer.policy
    policy.put_role(("x", "r"), role("r", rule("get", "pods")))
    policy.put_large_binding(("x", "b"), orjson.dumps(binding("b", "r", user("alice"), kind="Role")))
    policy.changed()
    pods = Attributes(User("alice"), "get", resource="pods", namespace="x")
    assert isinstance(authorizer.authorize(replace(pods, namespace="y")), Decision)
    pending = authorizer.authorize(pods)
    assert not isinstance(pending, Decision)
    assert (await pending).allowed
    now = authorizer.authorize(pods)
    assert isinstance(now, Decision) and now.allowed


async def test_large_objects_are_compiled_once_for_all_who_wait() -> None:
    authorizer = rbac(defaults=False)
    authorizer.policy.put_role(("x", "r"), role("r", rule("get", "pods")))
    subjects = [user("alice"), *(user(f"u{number}") for number in range(20_000))]
    stored = orjson.dumps(binding("b", "r", *subjects, kind="Role"))
    authorizer.policy.put_large_binding(("x", "b"), stored)
    authorizer.policy.changed()
    threads = trio.to_thread.current_default_thread_limiter()

    async def decide(name: str) -> None:
        pending = authorizer.authorize(Attributes(User("alice"), "get", resource=name, namespace="x"))
        assert not isinstance(pending, Decision)
        await pending

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(decide, f"r{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert threads.borrowed_tokens <= 1

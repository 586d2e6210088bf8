"""Many writers change one object at once, through webhooks: without a resourceVersion all succeed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from tests.api.webhooks.hooking import CONFIG_MAPS, MAPS, Hooks, hooking
from tests.gateway.api import ApiResponse

WRITERS = 16
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RULE = {
    "operations": ["*"],
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "resources": ["deployments", "deployments/status", "deployments/scale"],
}
SPEC = {
    "replicas": 0,
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}


async def short(_: dict[str, Any]) -> dict[str, Any]:
    await trio.sleep(0.02)
    return {}


async def at_once(hooks: Hooks, requests: list[partial[Any]]) -> list[ApiResponse]:
    responses: list[ApiResponse] = []

    async def send(request: partial[Any]) -> None:
        responses.append(await request())

    async with trio.open_nursery() as nursery:
        for request in requests:
            nursery.start_soon(send, request)
    return responses


def patch(hooks: Hooks, path: str, kind: str, body: Any, **query: Any) -> partial[Any]:
    headers = {"content-type": f"application/{kind}"}
    return partial(hooks.api.ask, "PATCH", path, body, headers=headers, **query)


def annotation(number: int) -> dict[str, Any]:
    return {"metadata": {"annotations": {f"k{number}": "1"}}}


def patch_of(hooks: Hooks, number: int) -> partial[Any]:
    """Formats and subresources in turn; each patch adds an annotation."""
    path = f"{DEPLOYMENTS}/a" + ("/status" if number % 8 >= 4 else "")
    match number % 4:
        case 0:
            return patch(hooks, path, "merge-patch+json", annotation(number))
        case 1:
            return patch(hooks, path, "strategic-merge-patch+json", annotation(number))
        case 2:
            operation = f'[{{"op": "add", "path": "/metadata/annotations/k{number}", "value": "1"}}]'
            return patch(hooks, path, "json-patch+json", operation.encode())
    applied = {"apiVersion": "apps/v1", "kind": "Deployment", **annotation(number)}
    return patch(hooks, path, "apply-patch+yaml", applied, fieldManager=f"m{number}")


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_patches_of_all_kinds_succeed_and_none_is_lost(kind: str) -> None:
    async with hooking(short=short) as hooks:
        made = {"metadata": {"name": "a", "annotations": {"k": "1"}}, "spec": SPEC}
        (await hooks.api.ask("POST", DEPLOYMENTS, made)).expect(201)
        await hooks.configure(kind, hooks.hook("a.example.com", "/short", rules=[RULE]))
        responses = await at_once(hooks, [patch_of(hooks, number) for number in range(WRITERS)])
        assert [one.status for one in responses] == [200] * WRITERS
        stored = (await hooks.api.ask("GET", f"{DEPLOYMENTS}/a")).expect(200)
        assert stored["metadata"]["annotations"] == {"k": "1", **{f"k{n}": "1" for n in range(WRITERS)}}
        # One call for each writer, a second one for each that was retried, and some more on a slow machine.
        assert len(hooks.requests) <= 3 * WRITERS


async def test_replaces_without_a_version_succeed() -> None:
    async with hooking(short=short) as hooks:
        (await hooks.api.ask("POST", DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": SPEC})).expect(201)
        await hooks.configure("mutating", hooks.hook("a.example.com", "/short", rules=[RULE]))
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
        scale["metadata"]["namespace"] = "default"  # type: ignore[index]
        requests = []
        for number in range(WRITERS // 4):
            named = {"metadata": {"name": "a", "labels": {"n": str(number)}}, "spec": SPEC}
            for part, body in (
                ("", named),
                ("/status", named),
                ("/scale", {**scale, "spec": {"replicas": 0}}),
            ):
                requests.append(partial(hooks.api.ask, "PUT", f"{DEPLOYMENTS}/a{part}", body))
        responses = await at_once(hooks, requests)
        assert {one.status for one in responses} == {200}


async def test_writes_that_name_a_version_conflict_but_for_one() -> None:
    async with hooking(short=short) as hooks:
        made = (await hooks.create("a")).expect(201)
        await hooks.configure("validating", hooks.hook("a.example.com", "/short"))
        version = made["metadata"]["resourceVersion"]
        requests = [
            patch(
                hooks,
                f"{MAPS}/a",
                "merge-patch+json",
                {"metadata": {"resourceVersion": version}, "data": {"k": str(number)}},
            )
            for number in range(WRITERS)
        ]
        responses = await at_once(hooks, requests)
        assert sorted(one.status for one in responses) == [200] + [409] * (WRITERS - 1)
        assert len(hooks.requests) == WRITERS


async def test_deletes_at_once_delete_once() -> None:
    async with hooking(short=short) as hooks:
        (await hooks.create("a")).expect(201)
        rules = [{**CONFIG_MAPS, "operations": ["DELETE"]}]
        await hooks.configure("validating", hooks.hook("a.example.com", "/short", rules=rules))
        requests = [partial(hooks.api.ask, "DELETE", f"{MAPS}/a") for _ in range(4)]
        responses = await at_once(hooks, requests)
        assert sorted(one.status for one in responses) == [200, 404, 404, 404]

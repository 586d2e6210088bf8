"""The reviews that webhooks get for deletions: single objects, collections, and pods with grace periods."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.profile import PROFILES
from tests.api.webhooks.hooking import CONFIG_MAPS, DENY, MAPS, hooking


async def test_collection_is_reviewed_object_by_object_until_the_first_refusal() -> None:
    """In the order of the list, and without a name: the old object has it."""
    async with hooking(
        check=lambda sent: DENY if sent["oldObject"]["metadata"]["name"] == "c" else {}
    ) as hooks:
        for name in ("d", "c", "b", "a"):
            (await hooks.create(name)).expect(201)
        rules = [{**CONFIG_MAPS, "operations": ["DELETE"]}]
        for kind in ("mutating", "validating"):
            await hooks.configure(kind, hooks.hook(f"{kind}.example.com", "/check", rules=rules))
        (await hooks.api.ask("DELETE", MAPS)).expect(400)
        reviewed = [sent["oldObject"]["metadata"]["name"] for sent in hooks.requests]
        assert reviewed == ["a", "a", "b", "b", "c"]
        assert all("name" not in sent and sent["namespace"] == "default" for sent in hooks.requests)
        left = (await hooks.api.list("configmaps"))["items"]
        assert [one["metadata"]["name"] for one in left] == ["c", "d"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_collection_has_the_warnings_of_all_its_objects(profile: str) -> None:
    """Each object is reviewed once, even if a later one is refused."""

    def warn(sent: dict[str, Any]) -> dict[str, Any]:
        name = sent["oldObject"]["metadata"]["name"]
        return {"warnings": ["careful", f"goodbye {name}"], "allowed": name != "c"}

    async with hooking(warn=warn, changed={"profile": profile}) as hooks:
        for name in "abcd":
            (await hooks.create(name)).expect(201)
        rules = [{**CONFIG_MAPS, "operations": ["DELETE"]}]
        await hooks.configure("validating", hooks.hook("a.example.com", "/warn", rules=rules))
        refused = await hooks.api.ask("DELETE", MAPS)
        refused.expect(400)
        texts = ["careful", "goodbye a", "goodbye b", "goodbye c"]
        assert sorted(refused.warnings) == [f'299 - "{text}"' for text in texts]
        deleted = await hooks.api.ask("DELETE", MAPS, labelSelector="no=such")
        assert (deleted.status, deleted.warnings) == (200, [])
        selected = await hooks.api.ask("DELETE", MAPS, fieldSelector="metadata.name=d", dryRun="All")
        assert (selected.status, selected.warnings) == (200, ['299 - "careful"', '299 - "goodbye d"'])


async def test_deletion_that_cannot_be_is_not_reviewed() -> None:
    """Deletes with failed preconditions, and of a pod that is already in its grace period."""
    rules = [{**CONFIG_MAPS, "operations": ["DELETE"], "resources": ["configmaps", "pods"]}]
    async with hooking() as hooks:
        (await hooks.create("a")).expect(201)
        await hooks.configure("validating", hooks.hook("a.example.com", rules=rules))
        (await hooks.api.ask("DELETE", f"{MAPS}/a", {"preconditions": {"uid": "other"}})).expect(409)
        assert hooks.requests == []
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        await hooks.api.create("pods", {"metadata": {"name": "p"}, "spec": spec})
        pod = hooks.api.path("pods", name="p")
        for _ in range(2):
            (await hooks.api.ask("DELETE", pod)).expect(200)
        (await hooks.api.ask("DELETE", pod, gracePeriodSeconds=40)).expect(200)
        (await hooks.api.ask("DELETE", pod, gracePeriodSeconds=-1)).expect(200)
        assert [sent["options"]["gracePeriodSeconds"] for sent in hooks.requests] == [30, 1]


async def test_review_of_a_deletion_has_the_grace_period_that_the_pod_gets() -> None:
    rules = [{**CONFIG_MAPS, "operations": ["DELETE"], "resources": ["pods"]}]
    async with hooking() as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", rules=rules))
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await hooks.api.create("pods", {"metadata": {"name": "p"}, "spec": spec})
        (await hooks.api.ask("DELETE", hooks.api.path("pods", name="p"), gracePeriodSeconds=9)).expect(200)
        assert hooks.requests[0]["options"]["gracePeriodSeconds"] == 0, "it is on no node"
        await hooks.api.create("pods", {"metadata": {"name": "p"}, "spec": spec})
        (await hooks.api.ask("DELETE", hooks.api.path("pods"), gracePeriodSeconds=9)).expect(200)
        assert hooks.requests[1]["options"]["gracePeriodSeconds"] == 9, "of the whole collection"

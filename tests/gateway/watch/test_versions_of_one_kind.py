"""Events are stored once and can be watched in two API groups, each with its own field names."""

from __future__ import annotations

from tests.gateway.api import served
from tests.gateway.watch.watching import watching

CORE = "/api/v1/namespaces/default/events"
GROUP = "/apis/events.cluster.io/v1/namespaces/default/events"
BODY = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    "reason": "Started",
    "message": "it runs",
    "source": {"component": "agent"},
}


async def test_both_groups_get_the_same_changes_in_their_own_form() -> None:
    async with served() as api, watching(api, CORE) as core, watching(api, GROUP) as group:
        (await api.ask("POST", CORE, BODY)).expect(201)
        [one], [other] = await core.take(1), await group.take(1)
        assert one["object"]["apiVersion"] == "v1"
        assert one["object"]["involvedObject"]["name"] == "p"
        assert one["object"]["message"] == "it runs"
        assert other["object"]["apiVersion"] == "events.cluster.io/v1"
        assert other["object"]["regarding"]["name"] == "p"
        assert other["object"]["note"] == "it runs"
        assert one["object"]["metadata"] == other["object"]["metadata"]
        (await api.ask("DELETE", f"{GROUP}/e")).expect(200)
        [one], [other] = await core.take(1), await group.take(1)
        assert one["type"] == other["type"] == "DELETED"
        assert "note" in other["object"]
        assert "note" not in one["object"]


async def test_field_selectors_use_the_field_names_of_each_group() -> None:
    async with (
        served() as api,
        watching(api, CORE, fieldSelector="involvedObject.name=p") as core,
        watching(api, GROUP, fieldSelector="regarding.name=p") as group,
        watching(api, GROUP, fieldSelector="regarding.name=q") as neither,
    ):
        (await api.ask("POST", CORE, BODY)).expect(201)
        assert await core.types_and_names(1) == await group.types_and_names(1) == [("ADDED", "e")]
        assert neither.events == []

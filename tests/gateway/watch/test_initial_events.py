"""A watch without a version, or with 0, begins with an ADDED event for each existing object, in list order."""

from __future__ import annotations

import pytest

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import versions, watching


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
async def test_existing_objects_are_added_in_list_order(query: dict[str, str]) -> None:
    async with served() as api:
        for name in ("b", "a-b", "a.b", "10", "9"):
            await api.create("configmaps", config_map(name))
        listed = await api.list("configmaps")
        async with watching(api, api.path("configmaps"), **query) as watch:
            events = await watch.take(5)
            assert {event["type"] for event in events} == {"ADDED"}
            assert [event["object"]["metadata"] for event in events] == [
                item["metadata"] for item in listed["items"]
            ]
            assert events[0]["object"]["kind"], events[0]["object"]["apiVersion"] == ("ConfigMap", "v1")
            made = await api.create("configmaps", config_map("z"))
            [event] = await watch.take(1)
            assert event == {"type": "ADDED", "object": made}
            assert versions([event]) == [int(made["metadata"]["resourceVersion"])]

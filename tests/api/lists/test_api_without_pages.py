"""`--feature-gates APIListChunking=false`: limit and continue are ignored."""

from __future__ import annotations

from tests.gateway.api import config_map, served


async def test_limit_of_a_list_is_ignored() -> None:
    async with served(feature_gates="APIListChunking=false") as api:
        for name in "abc":
            await api.create("configmaps", config_map(name))
        path = api.path("configmaps")
        for query in ({"limit": 1}, {"limit": 1, "resourceVersion": "1"}, {"continue": "token"}):
            found = (await api.ask("GET", path, **query)).expect(200)
            assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b", "c"]
            assert found["metadata"].keys() == {"resourceVersion"}


async def test_limit_of_a_collection_delete_is_ignored() -> None:
    async with served(feature_gates="APIListChunking=false") as api:
        for name in "abc":
            await api.create("configmaps", config_map(name))
        (await api.ask("DELETE", api.path("configmaps"), limit=1)).expect(200)
        assert (await api.list("configmaps"))["items"] == []

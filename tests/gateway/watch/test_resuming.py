"""A watch from the version of a list, an object or an event continues after it: no gap, no repetition."""

from __future__ import annotations

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import (
    assert_ascending,
    ports,
    transports,
    type_and_name,
    version,
    versions,
    watching,
)
from tests.settling import settled


@transports
async def test_watch_resumes_from_any_event(transport: str) -> None:
    async with served(**ports(transport)) as api:
        start = (await api.list("configmaps"))["metadata"]["resourceVersion"]
        for name in "abc":
            await api.create("configmaps", config_map(name))
        await api.replace("configmaps", config_map("b", x="1"))
        await api.delete("configmaps", "a")
        await api.create("configmaps", config_map("a"))
        path = api.path("configmaps")
        async with watching(api, path, transport, resourceVersion=start) as watch:
            everything = await watch.take(6)
        assert_ascending(everything)
        assert [kind for kind, _ in map(type_and_name, everything)] == [
            "ADDED",
            "ADDED",
            "ADDED",
            "MODIFIED",
            "DELETED",
            "ADDED",
        ]
        for place, event in enumerate(everything):
            async with watching(api, path, transport, resourceVersion=version(event)) as again:
                assert await again.take(5 - place) == everything[place + 1 :]
                await settled()
                assert again.untaken == []


async def test_deleted_event_has_its_own_version() -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a"))
        at = made["metadata"]["resourceVersion"]
        await api.delete("configmaps", "a")
        async with watching(api, api.path("configmaps"), resourceVersion=at) as watch:
            [event] = await watch.take(1)
            assert type_and_name(event) == ("DELETED", "a")
            assert version(event) > int(at)
            assert event["object"]["metadata"]["uid"] == made["metadata"]["uid"]


async def test_watch_starts_from_a_version_of_another_type() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        lease = await api.create("leases", {"metadata": {"name": "l"}})
        await api.create("configmaps", config_map("b"))
        at = lease["metadata"]["resourceVersion"]
        async with watching(api, api.path("configmaps"), resourceVersion=at) as watch:
            assert await watch.types_and_names(1) == [("ADDED", "b")]


async def test_watches_opened_at_different_times_get_equal_events() -> None:
    async with served() as api:
        path = api.path("configmaps")
        start = await api.head()
        async with watching(api, path, resourceVersion=start) as early:
            for number in range(50):
                await api.create("configmaps", config_map(f"c-{number}"))
            async with watching(api, path, resourceVersion=start) as late:
                for number in range(50):
                    await api.delete("configmaps", f"c-{number}")
                first, second = await early.take(100), await late.take(100)
                assert first == second
                assert_ascending(first)
                assert len(versions(first)) == 100

"""A restarted server serves watches from every version that is still in the watch history."""

from __future__ import annotations

from tests.gateway.api import config_map, labelled, served
from tests.gateway.watch.watching import assert_ascending, version, watching


async def test_watch_resumes_from_any_version_before_the_restart() -> None:
    async with served() as api:
        path, start = api.path("configmaps"), await api.head()
        async with watching(api, path, resourceVersion=start) as watch:
            for name in "abc":
                await api.create("configmaps", labelled(name, app="web"))
            await api.replace("configmaps", labelled("a", app="db"))
            await api.delete("configmaps", "b")
            before = await watch.take(5)
        await api.restart()
        await api.create("configmaps", labelled("d", app="web"))
        async with watching(api, path, resourceVersion=start) as watch:
            everything = await watch.take(6)
            assert everything[:5] == before
            assert_ascending(everything)
        for place, event in enumerate(everything):
            async with watching(api, path, resourceVersion=version(event)) as watch:
                assert await watch.take(5 - place) == everything[place + 1 :]
        async with watching(api, path, resourceVersion=version(before[2]), labelSelector="app=web") as watch:
            assert await watch.types_and_names(3) == [("DELETED", "a"), ("DELETED", "b"), ("ADDED", "d")]


async def test_watch_ends_cleanly_and_resumes_after_the_restart() -> None:
    async with served() as api:
        path = api.path("configmaps")
        async with watching(api, path) as watch:
            await api.create("configmaps", config_map("a"))
            [last] = await watch.take(1)
            await api.restart()
            assert await watch.end() == []
        await api.create("configmaps", config_map("b"))
        async with watching(api, path, resourceVersion=version(last)) as watch:
            assert await watch.types_and_names(1) == [("ADDED", "b")]


async def test_version_beyond_the_history_is_too_old_after_the_restart() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        api.clock.advance(400)
        await api.create("configmaps", config_map("b"))
        api.clock.advance(400)
        await api.create("configmaps", config_map("c"))
        await api.restart()
        async with watching(api, api.path("configmaps"), resourceVersion=1) as watch:
            [event] = await watch.end()
            assert event["object"]["code"] == 410

"""A watch from a version that has left the watch history gets one ERROR event with 410 and ends."""

from __future__ import annotations

from trio.testing import MockClock

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import ports, transports, watching


@transports
async def test_watch_from_an_expired_version_gets_an_error_event(
    transport: str, mock_clock: MockClock
) -> None:
    async with served(**ports(transport)) as api:
        old = (await api.create("configmaps", config_map("a")))["metadata"]["resourceVersion"]
        api.clock.advance(200)
        kept = (await api.create("configmaps", config_map("b")))["metadata"]["resourceVersion"]
        api.clock.advance(200)
        await api.create("configmaps", config_map("c"))
        async with watching(api, api.path("configmaps"), transport, resourceVersion=1) as watch:
            assert watch.status in (200, 101)
            [event] = await watch.end()
            assert event["type"] == "ERROR"
            assert event["object"] == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": f"too old resource version: 1 ({old})",
                "reason": "Expired",
                "code": 410,
            }
            assert watch.close_code in (None, 1008)
        async with watching(api, api.path("configmaps"), transport, resourceVersion=kept) as watch:
            assert await watch.types_and_names(1) == [("ADDED", "c")]


async def test_connection_continues_after_an_expired_watch() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        api.clock.advance(400)
        head = await api.head()
        async with watching(api, api.path("configmaps"), resourceVersion=1) as watch:
            await watch.end()
            reader = watch.reader  # type: ignore[attr-defined]
            await reader.open(f"{api.path('configmaps')}?watch=1&resourceVersion={head}", "admin-token", {})
            await reader.read_head()
            assert watch.status == 200

"""Watches of custom objects in versions that a webhook converts."""

from __future__ import annotations

from typing import Any

import httpx
import trio
from trio.testing import MockClock

from tests.api.custom.converting import Converting, converting
from tests.api.custom.kinds import GROUP
from tests.gateway.watch.watching import watching


def _shown(events: list[Any]) -> list[tuple[str, str, Any]]:
    return [(one["type"], one["object"]["metadata"]["name"], one["object"].get("spec")) for one in events]


async def test_each_version_gets_every_event_in_its_form() -> None:
    async with (
        converting() as server,
        watching(server.api, server.path("v1")) as old,
        watching(server.api, server.path("v2")) as new,
    ):
        await server.create("a", size=1)
        await server.patch("v2", "a", {"spec": {"length": 2}})
        (await server.api.ask("DELETE", server.path("v1", "a"))).expect(200)
        assert _shown(await old.take(3)) == [
            ("ADDED", "a", {"size": 1}),
            ("MODIFIED", "a", {"size": 2}),
            ("DELETED", "a", {"size": 2}),
        ]
        events = await new.take(3)
        assert _shown(events) == [
            ("ADDED", "a", {"length": 1}),
            ("MODIFIED", "a", {"length": 2}),
            ("DELETED", "a", {"length": 2}),
        ]
        assert {one["object"]["apiVersion"] for one in events} == {f"{GROUP}/v2"}


async def test_initial_events_and_backlog_are_converted_together() -> None:
    async with converting() as server:
        for number in range(20):
            await server.create(f"w{number:02}", size=number)
        created = [("ADDED", f"w{number:02}", {"length": number}) for number in range(20)]
        async with watching(server.api, server.path("v2"), resourceVersion="0") as watch:
            assert _shown(await watch.take(20)) == created
        assert server.calls() == [20]
        first = (await server.get("v1", "w00"))["metadata"]["resourceVersion"]
        async with watching(server.api, server.path("v2"), resourceVersion=first) as watch:
            assert _shown(await watch.take(19)) == created[1:]
        assert len(server.calls()) <= 2
        async with watching(server.api, server.path("v2"), resourceVersion=first) as watch:
            assert _shown(await watch.take(19)) == created[1:]
        assert server.calls() == []  # converted a moment ago


async def test_groups_of_watchers_share_the_conversion_of_an_event() -> None:
    async with converting() as server:
        async with (
            watching(server.api, server.path("v2")) as every,
            watching(server.api, server.path("v2"), labelSelector="k=v") as labelled,
        ):
            await server.create("a", labels={"k": "v"})
            assert (
                _shown(await every.take(1))
                == _shown(await labelled.take(1))
                == [("ADDED", "a", {"length": 1})]
            )
        assert server.calls() == [1]


async def test_running_watches_continue_after_a_storage_version_change() -> None:
    async with converting() as server, watching(server.api, server.path("v2")) as watch:
        await server.create("a")
        await watch.take(1)
        await server.declare(storage="v2")
        server.calls()
        await server.create("b", in_version="v2")
        assert _shown(await watch.take(1)) == [("ADDED", "b", {"length": 1})]
        assert server.calls() == []


async def test_failed_conversion_ends_a_watch_with_an_error_event() -> None:
    async with (
        converting() as server,
        watching(server.api, server.path("v1")) as old,
        watching(server.api, server.path("v2")) as new,
    ):
        await server.create("a")
        await new.take(1)
        server.respond = lambda _, right: {"kind": "Nothing"}
        await server.create("b")
        [error] = await new.end()
        assert error["type"] == "ERROR"
        assert error["object"]["code"] == 500
        assert error["object"]["message"].startswith(
            f"conversion webhook for {GROUP}/v2, Kind=WidgetList failed: expected webhook response of"
        )
        assert [kind for kind, _, _ in _shown(await old.take(2))] == ["ADDED", "ADDED"]
        async with watching(server.api, server.path("v2"), resourceVersion="0") as again:
            [error] = await again.end()
            assert error["type"] == "ERROR"


async def test_hanging_webhook_delays_only_who_needs_it(mock_clock: MockClock) -> None:
    mock_clock.rate = 1.0
    async with (
        converting() as server,
        watching(server.api, server.path("v1")) as old,
        watching(server.api, server.path("v2")) as new,
    ):
        called = trio.Event()
        server.api.client.timeout = httpx.Timeout(None)

        async def hang() -> None:
            called.set()
            await trio.sleep_forever()

        server.wait = hang
        failed: list[Any] = []

        async def read(method: str, path: str, body: Any = None) -> None:
            failed.append((await server.api.ask(method, path, body)).expect(500)["message"])

        async with trio.open_nursery() as nursery:
            await server.create("a")
            await called.wait()
            nursery.start_soon(read, "GET", server.path("v2", "a"))
            nursery.start_soon(read, "GET", server.path("v2"))
            nursery.start_soon(read, "POST", server.path("v2"), server.widget("v2", "z"))
            await server.patch("v1", "a", {"spec": {"size": 2}})
            assert (await server.get("v1", "a"))["spec"] == {"size": 2}
            assert [kind for kind, _, _ in _shown(await old.take(2))] == ["ADDED", "MODIFIED"]
            (await server.api.ask("DELETE", server.path("v2", "a"))).expect(200)
            await _until_called(server, 4)
            assert not failed
            mock_clock.jump(31)
        assert len(failed) == 3
        assert all("context deadline exceeded" in message for message in failed)
        [error] = await new.end()
        assert error["type"] == "ERROR"


async def _until_called(server: Converting, times: int) -> None:
    with trio.fail_after(60):
        while len(server.peer.received) < times:
            await trio.sleep(0.005)

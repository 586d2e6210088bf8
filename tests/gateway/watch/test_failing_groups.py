"""A group whose sweep raises ends its own watches with an ERROR event; everything else continues."""

from __future__ import annotations

import pytest

from rewound.gateway.watch import frames
from rewound.gateway.watch.changes import Changes
from rewound.gateway.watch.selection import Selected, Selection
from rewound.journal.errors import Damaged
from rewound.journal.records import Event
from tests.gateway.api import config_map, labelled, served
from tests.gateway.watch.watching import ports, transports, watching
from tests.settling import settled

select = Selection.select


def fails_for_selections(self: Selection, event: Event, changes: Changes) -> Selected | None:
    if self.match is not None:
        raise Damaged("made up")
    return select(self, event, changes)


@transports
async def test_failed_sweep_ends_its_watches_with_an_error(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(**ports(transport)) as api:
        path = api.path("configmaps")
        async with (
            watching(api, path, transport, labelSelector="app") as broken,
            watching(api, path, transport, labelSelector="app") as too,
            watching(api, path, transport) as healthy,
        ):
            with monkeypatch.context() as patch:
                patch.setattr(Selection, "select", fails_for_selections)
                await api.create("configmaps", labelled("a", app="x"))
                for watch in (broken, too):
                    [event] = await watch.end()
                    assert event["type"] == "ERROR"
                    assert (event["object"]["code"], event["object"]["reason"]) == (500, "InternalError")
                    assert "made up" not in str(event)
                    assert watch.close_code in (None, 1011)
                assert await healthy.types_and_names(1) == [("ADDED", "a")]
            async with watching(api, path, transport, labelSelector="app") as again:
                await api.create("configmaps", labelled("b", app="x"))
                assert await again.types_and_names(2) == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize("transport", ["plain", "h2-window"])
async def test_failed_catch_up_ends_only_its_watch(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "RETAINED_BYTES", 0)
    async with served() as api:
        path, at = api.path("configmaps"), await api.head()
        async with (
            watching(api, path, transport, labelSelector="app", stalled=True, resourceVersion=at) as lagging,
            watching(api, path, labelSelector="app", resourceVersion=at) as healthy,
        ):
            for number in range(30):
                body = labelled(f"c-{number:02}", app="x")
                await api.create("configmaps", {**body, "data": {"big": "x" * 100_000}})
            await healthy.take(30)
            with monkeypatch.context() as patch:
                patch.setattr(Selection, "select", fails_for_selections)
                lagging.resume()  # type: ignore[attr-defined]
                await lagging.wait_over()
                await settled()
            assert lagging.events[-1]["object"]["code"] == 500
            await api.create("configmaps", labelled("last", app="x"))
            assert await healthy.types_and_names(1) == [("ADDED", "last")]


async def test_server_survives_a_failed_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api, watching(api, api.path("configmaps")) as watch:
        with monkeypatch.context() as patch:
            patch.setattr(Selection, "select", lambda *_: 1 / 0)
            await api.create("configmaps", config_map("a"))
            await watch.end()
        assert (await api.ask("GET", "/readyz")).status == 200
        assert (await api.list("configmaps"))["items"][-1]["metadata"]["name"] == "a"

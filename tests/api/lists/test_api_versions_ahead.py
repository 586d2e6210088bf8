"""A request with a resourceVersion that the server has not reached waits, then gets a 504 with Retry-After."""

from __future__ import annotations

import pytest
import trio

from tests.actors.object_store import Refused, open_store
from tests.gateway.api import Opener, config_map, everywhere, version_after
from tests.gateway.shared_server import shared

AHEAD = 1_000_000


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.actors.store.reads.VERSION_WAIT", 0.01)


@pytest.fixture
def long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for ever: the read returns when the version is reached."""
    monkeypatch.setattr("rewound.actors.store.reads.VERSION_WAIT", float("inf"))


@everywhere
@pytest.mark.usefixtures("short_wait")
@pytest.mark.parametrize(
    "query",
    [
        {},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"limit": 1},
        {"fieldSelector": "metadata.name=a"},
    ],
    ids=["unset", "exact", "not older than", "with a limit", "of one name"],
)
async def test_list_at_a_future_version_is_a_504(opened: Opener, query: dict[str, object]) -> None:
    async with opened() as api:
        with pytest.raises(Refused, match=f"Too large resource version: {AHEAD}, current: ") as refused:
            await api.list("configmaps", resourceVersion=AHEAD, **query)
        assert refused.value.reason == "Timeout"


@everywhere
@pytest.mark.usefixtures("short_wait")
@pytest.mark.parametrize("name", ["there", "missing"])
async def test_get_at_a_future_version_is_a_504(opened: Opener, name: str) -> None:
    async with opened() as api:
        await api.create("configmaps", config_map("there"))
        with pytest.raises(Refused, match="Too large resource version"):
            await api.get("configmaps", name, resourceVersion=AHEAD)


@pytest.mark.usefixtures("short_wait")
@pytest.mark.parametrize("name", ["", "a"], ids=["list", "get"])
async def test_status_has_retry_after(name: str) -> None:
    async with shared() as api:
        response = await api.ask("GET", api.path("configmaps", name=name), resourceVersion=AHEAD)
        head = await api.head()
        status = response.expect(504)
        assert response.headers["retry-after"] == "1"
        assert status["reason"] == "Timeout"
        assert status["message"] == f"Timeout: Too large resource version: {AHEAD}, current: {head}"
        assert status["details"]["retryAfterSeconds"] == 1
        assert status["details"]["causes"] == [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]


async def test_get_waits_three_seconds_for_a_future_version(autojump_clock: trio.testing.MockClock) -> None:
    async with open_store() as store:
        before = trio.current_time()
        with pytest.raises(Refused):
            await store.get("configmaps", "a", resourceVersion=AHEAD)
        assert trio.current_time() - before == 3


@everywhere
@pytest.mark.usefixtures("long_wait")
@pytest.mark.parametrize("match", ["", "Exact", "NotOlderThan"])
async def test_waiting_list_returns_when_the_version_is_reached(opened: Opener, match: str) -> None:
    async with opened() as api:
        head = int((await api.list("configmaps"))["metadata"]["resourceVersion"])
        later = version_after(api, head, 2)
        query = {"resourceVersionMatch": match} if match else {}
        found = []

        async def wait() -> None:
            found.append(await api.list("configmaps", resourceVersion=later, **query))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await api.create("configmaps", config_map("a"))
            assert not found
            await api.create("configmaps", config_map("b"))
        assert [item["metadata"]["name"] for item in found[0]["items"]] == ["a", "b"]
        assert found[0]["metadata"]["resourceVersion"] == str(later)


@everywhere
@pytest.mark.usefixtures("long_wait")
async def test_waiting_get_returns_the_new_object(opened: Opener) -> None:
    async with opened() as api:
        head = int((await api.list("configmaps"))["metadata"]["resourceVersion"])
        later = version_after(api, head, 1)
        found = []

        async def wait() -> None:
            found.append(await api.get("configmaps", "a", resourceVersion=later))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await api.create("configmaps", config_map("a"))
        assert found[0]["metadata"]["resourceVersion"] == str(later)


@everywhere
@pytest.mark.parametrize("version", ["x", "-1", "1.5", "1e3", " 1", "٣", "9" * 30])
async def test_malformed_version_is_refused(opened: Opener, version: str) -> None:
    async with opened() as api:
        with pytest.raises(Refused, match="resourceVersion: Invalid value") as refused:
            await api.list("configmaps", resourceVersion=version)
        assert refused.value.reason == "BadRequest"
        with pytest.raises(Refused, match="resourceVersion: Invalid value"):
            await api.get("configmaps", "a", resourceVersion=version)

"""timeoutSeconds limits lists and deletes of collections: a request that takes longer gets a 504."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.server import open_store
from tests.cases import cases
from tests.gateway.api import Api, ApiResponse, SlowDisk, config_map, names, served
from tests.gateway.shared_server import shared
from tests.settling import settled

PATH = "/api/v1/namespaces/default/configmaps"


async def after(api: Api, clock: MockClock, seconds: float, method: str, **query: Any) -> list[ApiResponse]:
    """The responses to a request that arrived within this time."""
    responses: list[ApiResponse] = []

    async def ask() -> None:
        responses.append(await api.ask(method, PATH, **query))

    api.nursery.start_soon(ask)
    await settled()
    clock.jump(seconds)
    await settled()
    return responses


@pytest.fixture
def long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.actors.store.reads.VERSION_WAIT", float("inf"))


@pytest.mark.usefixtures("long_wait")
async def test_list_beyond_its_timeout_is_a_504(mock_clock: MockClock) -> None:
    async with served() as api:
        query = {"resourceVersion": 1_000_000, "timeoutSeconds": 7}
        responses = await after(api, mock_clock, 6.9, "GET", **query)
        assert not responses
        mock_clock.jump(0.1)
        await settled()
        status = responses[0].expect(504)
        assert status["reason"] == "Timeout"
        assert "Too large resource version: 1000000, current: " in status["message"]
        assert status["details"]["causes"] == [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]
        assert responses[0].headers["retry-after"] == "1"


async def test_list_within_its_timeout_succeeds(mock_clock: MockClock) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        responses = await after(api, mock_clock, 0, "GET", timeoutSeconds=1)
        assert names(responses[0].expect(200)) == ["a"]


@pytest.mark.parametrize("query", [{}, {"timeoutSeconds": 0}], ids=["unset", "zero"])
async def test_list_without_a_timeout_waits_three_seconds_for_a_version(
    query: dict[str, int], mock_clock: MockClock
) -> None:
    async with served() as api:
        responses = await after(api, mock_clock, 2.9, "GET", resourceVersion=1_000_000, **query)
        assert not responses
        mock_clock.jump(0.1)
        await settled()
        assert "Too large resource version" in responses[0].expect(504)["message"]


async def test_delete_collection_beyond_its_timeout_leaves_the_rest(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_store, "Committer", SlowDisk)
    for bound in ("BATCH", "SMALLEST_BATCH"):
        monkeypatch.setattr(f"rewound.actors.resource.collection.{bound}", 2)
    async with served() as api:
        for name in "abcde":
            await api.create("configmaps", config_map(name))
        monkeypatch.setattr(SlowDisk, "gate", gate := trio.Event())
        responses = await after(api, mock_clock, 2, "DELETE", timeoutSeconds=2)
        status = responses[0].expect(504)
        assert (status["reason"], status["details"]["retryAfterSeconds"]) == ("Timeout", 1)
        gate.set()
        await settled()
        # The first two were already being committed.
        assert names(await api.list("configmaps")) == ["c", "d", "e"]


async def test_delete_collection_within_its_timeout_succeeds(mock_clock: MockClock) -> None:
    async with served() as api:
        for name in "ab":
            await api.create("configmaps", config_map(name))
        responses = await after(api, mock_clock, 0, "DELETE", timeoutSeconds=1)
        assert responses[0].expect(200)["status"] == "Success"
        assert names(await api.list("configmaps")) == []


@cases("method", ["GET", "DELETE"])
@cases("value", ["-1", "x", "", "1.5", "1s", "0x10", "9" * 30, " 1", "1_000"])
async def test_invalid_timeouts_are_refused(method: str, value: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        status = (await api.ask(method, PATH, timeoutSeconds=value)).expect(400)
        assert status["reason"] == "BadRequest"
        assert status["message"].startswith("timeoutSeconds: Invalid value")
        assert names(await api.list("configmaps")) == ["a"]

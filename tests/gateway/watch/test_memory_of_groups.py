"""Groups and their selectors count in the memory budget: a watch that needs a new one is refused without room."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.gateway.memory.budget import MemoryBudget, TooManyRequests
from rewound.gateway.watch import interest as interests
from rewound.gateway.watch.interest import GROUP_BYTES, SELECTOR_FACTOR, account
from tests.gateway.api import Api, served
from tests.gateway.watch.watching import watching
from tests.settling import settled

# Far more than the machine has: the memory that the test process uses does not matter.
LIMIT = 1 << 44
OF_ONE_USER = LIMIT // 4


async def refused(api: Api, path: str, **query: Any) -> bool:
    response = await api.ask("GET", path, watch=1, timeoutSeconds=1, **query)
    if response.status != 429:
        return False
    assert response.headers["retry-after"] == "1"
    assert "as one user may" in response.document["message"]
    return True


async def test_watch_without_room_for_its_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "GROUP_BYTES", OF_ONE_USER * 2 // 3)
    async with served(memory_limit=LIMIT, max_connections=100) as api:
        path, at = api.path("configmaps"), await api.head()
        query = {"resourceVersion": at, "labelSelector": "app=a"}
        async with watching(api, path, **query):
            await settled()
            assert await refused(api, path, resourceVersion=at, labelSelector="app=b")
            async with watching(api, path, **query):  # shares the group
                await settled()
            assert await refused(api, path, resourceVersion=at, labelSelector="app=b")
        await settled()
        async with watching(api, path, resourceVersion=at, labelSelector="app=b"):
            await settled()


def test_long_selector_counts_more() -> None:
    assert account("u", "", "").size == GROUP_BYTES
    assert account("u", "a" * 1000, "b" * 10).size == GROUP_BYTES + 1010 * SELECTOR_FACTOR


def test_check_of_room_counts_nothing() -> None:
    budget = MemoryBudget(1000)
    held = account("u")
    budget.check_room(held, 500)
    assert (budget.held, held.reserved) == (0, 0)
    with pytest.raises(TooManyRequests):
        budget.check_room(held, 501)

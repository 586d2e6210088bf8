"""Exploring asyncio controllers: tasks, queues, timers and locks, step by step in the server's time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import rewound
from rewound import AsyncApi, ExplorationFailed
from tests.cases import cases
from tests.testing.explore.controllers import MAPS, MERGE

ASYNCIO: Any = {"async_library": "asyncio"}


async def creates(api: AsyncApi) -> None:
    for name in ("a", "b"):
        await api.post(MAPS, json={"metadata": {"name": name}, "data": {"count": "1"}})
    await api.settle()
    for name in ("a", "b"):
        assert (await api.get(f"{MAPS}/{name}")).json()["data"] == {"count": "3"}


async def counts_to_three(api: AsyncApi) -> None:
    """One task watches and fills a queue, another takes from it, as asyncio controllers usually do."""
    waiting: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def watches() -> None:
        while True:
            async for event in await api.watch(MAPS):
                count = int(event["object"].get("data", {}).get("count", "9"))
                if count < 3:
                    await waiting.put((event["object"]["metadata"]["name"], count))

    async def works() -> None:
        while True:
            name, count = await waiting.get()
            await asyncio.sleep(0.5)
            body = {"data": {"count": str(count + 1)}}
            (await api.patch(f"{MAPS}/{name}", json=body, headers=MERGE)).raise_for_status()

    async with asyncio.TaskGroup() as group:
        group.create_task(watches())
        group.create_task(works())


async def counts_all(api: AsyncApi) -> None:
    """The same from the newest list, so that neither order nor crashes matter."""
    while True:
        found = (await api.get(MAPS)).raise_for_status().json()
        for one in found["items"]:
            count = int(one.get("data", {}).get("count", "9"))
            if count < 3:
                body = {"metadata": {"resourceVersion": one["metadata"]["resourceVersion"]}}
                body["data"] = {"count": str(count + 1)}
                await api.patch(f"{MAPS}/{one['metadata']['name']}", json=body, headers=MERGE)
        try:
            async with asyncio.timeout(10):
                async for _ in await api.watch(MAPS, resourceVersion=found["metadata"]["resourceVersion"]):
                    break
        except TimeoutError:
            pass


def test_controller_with_tasks_a_queue_and_timers_runs() -> None:
    explored = rewound.explore(counts_to_three, creates, runs=1, **ASYNCIO)
    text = "\n".join(explored.steps)
    assert text.count("PATCH configmaps/default/") == 4 and "wakes up" in text


def test_correct_controller_passes_with_all_faults() -> None:
    assert rewound.explore(counts_all, creates, runs=6, seed=5, **ASYNCIO).runs == 6


async def forgets(api: AsyncApi) -> None:
    """Creates another map a second after each event; only its timers know of the events."""

    async def later(name: str) -> None:
        await asyncio.sleep(1)
        (await api.post(MAPS, json={"metadata": {"name": f"other-{name}"}})).raise_for_status()

    version = (await api.get(MAPS)).raise_for_status().json()["metadata"]["resourceVersion"]
    tasks = []
    async for event in await api.watch(MAPS, resourceVersion=version):
        name = event["object"]["metadata"]["name"]
        if not name.startswith("other-"):
            tasks.append(asyncio.create_task(later(name)))


async def creates_later(api: AsyncApi) -> None:
    await asyncio.sleep(1)
    for name in ("a", "b"):
        await api.post(MAPS, json={"metadata": {"name": name}})
    await api.settle()


def test_what_a_crash_loses_is_found_and_repeated(tmp_path: Path) -> None:
    options: Any = {"faults": ("crash",), "steps": 1, "runs": 30, "keep": tmp_path, **ASYNCIO}
    with pytest.raises(ExplorationFailed) as failed:
        rewound.explore(forgets, creates_later, seed=1, **options)
    assert "configmaps default/other-" in failed.value.reason and "is missing" in failed.value.reason
    with pytest.raises(ExplorationFailed) as again:
        rewound.explore(forgets, creates_later, seed=1, repeat=failed.value.faults, **options)
    assert (again.value.steps, again.value.reason) == (failed.value.steps, failed.value.reason)


async def in_a_thread(api: AsyncApi) -> None:
    await asyncio.to_thread(print)


async def over_a_socket(api: AsyncApi) -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def never_ends(api: AsyncApi) -> None:
    while True:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            pass


@cases(
    "controller, text",
    [(in_a_thread, "WaitsOutside: a controller of asyncio waits only"), (over_a_socket, "WaitsOutside: a")],
)
def test_what_the_explorer_cannot_see_is_named(controller: Any, text: str) -> None:
    with pytest.raises(ExplorationFailed, match=text):
        rewound.explore(controller, creates, runs=1, **ASYNCIO)


def test_controller_that_catches_its_cancellation_is_named() -> None:
    with pytest.raises(Exception, match="never_ends does not end when its tasks are cancelled"):
        rewound.explore(never_ends, runs=1, **ASYNCIO)


def test_asyncio_without_its_option_is_named() -> None:
    with pytest.raises(ExplorationFailed, match="explore needs async_library='asyncio'"):
        rewound.explore(counts_to_three, runs=1)
    with pytest.raises(ValueError, match="async_library: 'curio' is none; there are trio and asyncio"):
        rewound.explore(counts_to_three, runs=1, async_library="curio")

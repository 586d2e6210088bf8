"""A stopping server does not wait for silent HTTP/2 clients with watches, whatever state their streams are in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from tests.gateway.api import ADMIN, Api, config_map, served
from tests.gateway.connections.http2.raw_client import RawClient, Setting, rst_stream, window_update
from tests.gateway.watch.watching import connect
from tests.settling import seconds_to_stop

NO_WINDOW = {Setting.INITIAL_WINDOW_SIZE: 0}
MAX_WINDOW = 2**31 - 1
WINDOW = {Setting.INITIAL_WINDOW_SIZE: MAX_WINDOW}
TOKEN = (("authorization", f"Bearer {ADMIN}"),)
STREAMS = 20


class Watcher(RawClient):
    """Opens watches of config maps from the newest version; with `initial`, starting with the existing objects."""

    def __init__(self, api: Api, stream: trio.abc.Stream, head: str) -> None:
        super().__init__(stream)
        self._path = api.path("configmaps") + "?watch=1"
        self._head = head

    async def watch(self, *, initial: bool = False) -> int:
        path = self._path if initial else f"{self._path}&resourceVersion={self._head}"
        stream = await self.request(path, fields=TOKEN)
        await self.head(stream)
        return stream


async def reset(watcher: Watcher) -> None:
    await watcher.open()
    await watcher.send(rst_stream(await watcher.watch()))


async def no_window(watcher: Watcher) -> None:
    await watcher.open(NO_WINDOW)
    for _ in range(STREAMS):
        await watcher.watch()


async def no_window_for_existing_objects(watcher: Watcher) -> None:
    await watcher.open(NO_WINDOW)
    for _ in range(STREAMS):
        await watcher.watch(initial=True)


async def no_window_of_the_connection(watcher: Watcher) -> None:
    await watcher.open(WINDOW)
    for _ in range(STREAMS):
        await watcher.watch()


async def no_reading(watcher: Watcher) -> None:
    await watcher.open(WINDOW)
    await watcher.send(window_update(0, MAX_WINDOW - 65535))
    for _ in range(STREAMS):
        await watcher.watch()


Behave = Callable[[Watcher], Awaitable[None]]


@pytest.mark.parametrize(
    "behave",
    [reset, no_window, no_window_for_existing_objects, no_window_of_the_connection, no_reading],
)
async def test_silent_client_delays_the_stop_by_seconds(behave: Behave, mock_clock: MockClock) -> None:
    async with served() as api, await connect(api, small=True) as stream:
        watcher = Watcher(api, stream, await api.head())
        await api.create("configmaps", config_map("before"))
        await behave(watcher)
        for number in range(3):
            await api.create("configmaps", config_map(f"c-{number}", big="x" * 300_000))
        await api.close_idle()
        assert await seconds_to_stop(api, mock_clock) < 5

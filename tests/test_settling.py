"""`settled` waits for tasks, threads and the network, not for a fixed time."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
import trio

from tests import settling
from tests.settling import eventually, settled


async def test_settled_waits_until_bytes_have_passed_through_all_tasks() -> None:
    received: list[bytes] = []

    async def pass_on(source: trio.SocketStream, target: trio.SocketStream) -> None:
        async for part in source:
            await target.send_all(part)

    async def read(source: trio.SocketStream) -> None:
        async for part in source:
            received.append(bytes(part))

    async with trio.open_nursery() as nursery:
        pairs = [await tcp_pair() for _ in range(20)]
        for (_, far), (near, _) in pairwise(pairs):
            nursery.start_soon(pass_on, far, near)
        nursery.start_soon(read, pairs[-1][1])
        await pairs[0][0].send_all(b"through")
        await settled()
        assert received == [b"through"]
        await settled()
        nursery.cancel_scope.cancel()
    for pair in pairs:
        for end in pair:
            end.socket.close()


async def tcp_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    near = await trio.testing.open_stream_to_socket_listener(listener)
    far = await listener.accept()
    await listener.aclose()
    return near, far


async def test_settled_waits_for_threads() -> None:
    may_end, done = threading.Event(), list[str]()

    async def work() -> None:
        await trio.to_thread.run_sync(may_end.wait, 60)
        done.append("work")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        threading.Timer(0.05, may_end.set).start()
        await settled()
        assert done == ["work"]


async def test_settled_fails_if_tasks_wake_each_other_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_MAX_ROUNDS", 20)

    async def disturb() -> None:
        near, far = await tcp_pair()
        async with near, far:
            while True:
                await near.send_all(b".")
                await trio.testing.wait_all_tasks_blocked()
                await far.receive_some(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(disturb)
        with pytest.raises(AssertionError, match="the tasks never settle"):
            await settled()
        nursery.cancel_scope.cancel()


async def test_eventually_fails_once_nothing_can_change() -> None:
    with pytest.raises(AssertionError, match="it never held"):
        await eventually(lambda: False)

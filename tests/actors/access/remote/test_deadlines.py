"""Calls over kept connections end when their time is over, each at its own moment."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.access.remote.deadlines import Deadlines
from actors.access.remote.https_client import HttpsClient
from actors.access.remote.tls_stream import TooSlow
from tests.actors.access.remote.https_peer import Received, Reply, https_peer, pki

LARGEST = 1 << 20
HOUR = 3600.0


class Stream:
    def __init__(self) -> None:
        self.expired_at: float | None = None

    def expire(self) -> None:
        self.expired_at = trio.current_time()


async def test_streams_expire_at_their_deadlines(autojump_clock: MockClock) -> None:
    deadlines, began = Deadlines(), trio.current_time()
    first, second, removed, third = (Stream() for _ in range(4))
    deadlines.add(first, began + 10)
    await wait_all_tasks_blocked()
    deadlines.add(second, began + 5)
    deadlines.add(removed, began + 1)
    deadlines.add(third, began + 30)
    deadlines.remove(removed)
    await trio.sleep(HOUR)
    deadlines.add(removed, began + HOUR + 7)
    await trio.sleep(HOUR)
    expired = [one.expired_at for one in (first, second, third, removed)]
    assert expired == [began + 10, began + 5, began + 30, began + HOUR + 7]


async def test_one_that_expires_may_remove_and_prolong_others(autojump_clock: MockClock) -> None:
    deadlines, began = Deadlines(), trio.current_time()

    class Group(Stream):
        def expire(self) -> None:
            super().expire()
            deadlines.remove(removed)
            deadlines.add(prolonged, began + 20)

    group, removed, prolonged = Group(), Stream(), Stream()
    for one in (group, removed, prolonged):
        deadlines.add(one, began + 10)
    await trio.sleep(HOUR)
    expired = [one.expired_at for one in (group, removed, prolonged)]
    assert expired == [began + 10, None, began + 20]


async def test_no_task_waits_when_no_call_is_under_way(autojump_clock: MockClock) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    deadlines = Deadlines()
    for _ in range(3):
        stream = Stream()
        deadlines.add(stream, trio.current_time() + 10)
        deadlines.remove(stream)
    await trio.sleep(11)
    assert stream.expired_at is None
    assert trio.lowlevel.current_statistics().tasks_living == before


def client() -> HttpsClient:
    context = ssl.create_default_context(cafile=str(pki() / "ca.pem"))
    context.load_cert_chain(pki() / "client.pem", pki() / "client.key")
    return HttpsClient(context, kept=10)


@pytest.mark.parametrize("dripping", [False, True])
async def test_slow_response_over_a_kept_connection(dripping: bool, autojump_clock: MockClock) -> None:
    """One that never begins, and one of which a byte arrives each second."""
    autojump_clock.autojump_threshold = 0.05

    async def drip() -> AsyncIterator[bytes]:
        while True:
            await trio.sleep(1 if dripping else HOUR)
            yield b" "

    def respond(received: Received) -> object:
        return drip() if received.body == b"slow" else Reply()

    async with https_peer(respond) as peer:
        calls, url = client(), f"https://127.0.0.1:{peer.port}/"
        await calls.request(url, {}, b"quick", LARGEST)
        began = trio.current_time()
        with pytest.raises(TooSlow):
            await calls.request(url, {}, b"slow", LARGEST, began + 5)
        assert trio.current_time() == began + 5
        assert peer.connections == 1
        await calls.request(url, {}, b"quick", LARGEST, began + 10)
        assert peer.connections == 2, "the connection of the slow call is closed"
        calls.close()


async def test_slow_response_over_a_new_connection(autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = 0.05

    async def never() -> AsyncIterator[bytes]:
        await trio.sleep(HOUR)
        yield b""

    async with https_peer(lambda received: never()) as peer:
        began = trio.current_time()
        with pytest.raises(TooSlow):
            await client().request(f"https://127.0.0.1:{peer.port}/", {}, b"{}", LARGEST, began + 5)
        assert trio.current_time() == began + 5

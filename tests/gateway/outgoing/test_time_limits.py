"""Calls over pooled connections end at their own timeouts."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.access.remote.deadlines import TooSlow
from rewound.gateway.outgoing.client import HttpsClient
from tests.gateway.outgoing.https_peer import Received, Reply, https_peer, pki

LARGEST = 1 << 20
HOUR = 3600.0


def client() -> HttpsClient:
    context = ssl.create_default_context(cafile=str(pki() / "ca.pem"))
    context.load_cert_chain(pki() / "client.pem", pki() / "client.key")
    return HttpsClient(context, max_idle=10)


@pytest.mark.parametrize("dripping", [False, True])
async def test_slow_response_over_a_pooled_connection(dripping: bool, autojump_clock: MockClock) -> None:
    """A response that never starts, and one that sends a byte a second."""
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

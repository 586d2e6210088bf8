"""Many simultaneous requests for one server open only a few connections at a time. In virtual time."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.outgoing.connections import MAX_OPENING, Connections, Endpoint
from rewound.gateway.outgoing.streams import ByteStream
from rewound.gateway.proxy.upstream import Target, Unreachable, connect


class Dialled(Connections):
    """Connections that the test completes when it wants."""

    def __init__(self) -> None:
        super().__init__(max_idle=0)
        self.open = trio.Event()
        self.dialling: Counter[str] = Counter()

    async def dial(self, endpoint: Endpoint) -> ByteStream:
        self.dialling[endpoint.host] += 1
        await self.open.wait()
        self.dialling[endpoint.host] -= 1
        raise ConnectionRefusedError(111, "refused")


def target(host: str) -> Target:
    return Target(host=host, port=443, path="/")


async def test_few_connections_to_an_address_are_opened_at_once(autojump_clock: MockClock) -> None:
    connections, failed = Dialled(), Counter[str]()

    async def ask(host: str) -> None:
        with pytest.raises(Unreachable):
            await connect(connections, target(host))
        failed[host] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(3 * MAX_OPENING):
            nursery.start_soon(ask, "a")
        nursery.start_soon(ask, "b")
        await wait_all_tasks_blocked()
        assert connections.dialling == {"a": MAX_OPENING, "b": 1}  # another address does not wait
        connections.open.set()
    assert failed == {"a": 3 * MAX_OPENING, "b": 1}
    assert not len(connections._opening)


async def test_who_waits_for_the_others_too_long_gets_the_error_of_a_dial(autojump_clock: MockClock) -> None:
    connections, messages = Dialled(), list[str]()

    async def ask() -> None:
        with pytest.raises(Unreachable) as refused:
            await connect(connections, target("a"))
        messages.append(str(refused.value))

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(2 * MAX_OPENING):
            nursery.start_soon(ask)
    assert set(messages) == {"dial tcp a:443: i/o timeout"}
    assert trio.current_time() - began == pytest.approx(target("a").connect_seconds)

"""Hostile bodies for every kind: no request fails with 500, and no refusal is longer than 64 KiB.

The short version sends a few small ones to a server in this process. The long version sends many of up to three
megabytes to a separate server, and also fails when a request takes long or blocks the event loop for more than 50 ms.
A busy machine stops processes for longer than that, and the first request of a kind compiles the kind: only a request
that blocks the loop every time it is sent fails the test.
"""

from __future__ import annotations

import http.client
import re
import time
from pathlib import Path

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from tests.gateway.api import Api, served
from tests.robustness.bodies.hostile import HostileRequest, hostile_request
from tests.robustness.cluster import LOOPBACK, TOKEN, Cluster

KINDS = [
    definition
    for definition in built_in(CLUSTER).definitions
    if definition.on_by_default and not {"create", "update", "patch"}.isdisjoint(definition.verbs)
]
LARGEST_REFUSAL = 64 * 1024
LONGEST_REQUEST = 5.0  # seconds, on an idle machine
PAUSES = (0.0, 0.1, 0.5, 1.0, 2.0)  # seconds before each attempt: longer than a machine usually stalls
SIZES = (2_000, 60_000, 900_000, 3_000_000)
_HOLDS = re.compile(rb"^rewound_event_loop_long_holds_total (\S+)$", re.MULTILINE)


def check(request: HostileRequest, status: int, body: bytes, head: int) -> None:
    assert status != 500, f"{request}: {body[:2000]!r}"
    assert status < 400 or len(body) <= LARGEST_REFUSAL, f"{request}: {len(body)} bytes"
    assert head < 16 * 1024, f"{request}: a head of {head} bytes"


async def test_small_hostile_bodies_are_handled() -> None:
    async with served() as api:
        for number, definition in enumerate(KINDS[::8]):  # compiling a kind takes longer than its requests
            for seed in range(3):
                await _send(api, hostile_request(definition, 100 * number + seed, 3000))


async def _send(api: Api, request: HostileRequest) -> None:
    response = await api.ask(
        request.method, request.path, request.body, headers={"content-type": request.media}
    )
    head = sum(len(name) + len(value) for name, value in response.headers.items())
    check(request, response.status, response.body, head)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("size", SIZES)
def test_hostile_bodies_delay_no_other_request(tmp_path: Path, size: int) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()
        for seed in range(max(2, 200_000 // size)):
            requests = [hostile_request(one, 1000 * seed + number, size) for number, one in enumerate(KINDS)]
            before = _long_holds(cluster)
            slowest = max(_timed(cluster, request) for request in requests)
            if slowest < LONGEST_REQUEST and _long_holds(cluster) == before:
                continue
            for request in requests:  # one of them, or the machine
                attempts = (_passes(cluster, request, pause) for pause in PAUSES)
                assert any(attempts), f"takes long, or holds the event loop, every time: {request}"
        assert cluster.tracebacks() == ""


def _passes(cluster: Cluster, request: HostileRequest, pause: float) -> bool:
    time.sleep(pause)
    before = _long_holds(cluster)
    return _timed(cluster, request) < LONGEST_REQUEST and _long_holds(cluster) == before


def _timed(cluster: Cluster, request: HostileRequest) -> float:
    began = time.monotonic()
    status, body, head = _exchange(cluster, request)
    check(request, status, body, head)
    return time.monotonic() - began


def _exchange(cluster: Cluster, request: HostileRequest) -> tuple[int, bytes, int]:
    connection = http.client.HTTPConnection(LOOPBACK, cluster.port, timeout=60)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": request.media}
    try:
        connection.request(request.method, request.path, request.body, headers)
        response = connection.getresponse()
        head = sum(len(name) + len(value) for name, value in response.getheaders())
        return response.status, response.read(), head
    except (BrokenPipeError, ConnectionResetError):
        return 413, b"", 0  # refused before all of the body was sent
    finally:
        connection.close()


def _long_holds(cluster: Cluster) -> float:
    """How often tasks have blocked the loop for more than 50 ms."""
    _, metrics, _ = _exchange(cluster, HostileRequest("GET", "/metrics", "text/plain", b""))
    found = _HOLDS.search(metrics)
    assert found is not None
    return float(found[1])

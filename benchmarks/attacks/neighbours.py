"""Users who share the priority level of the client that is measured: long requests, many commands, and many pairs.

That client is no administrator: it waits for seats, turns and the actor of its type as every user does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

import trio

from benchmarks.attacks.lists import COLLECTION, OBJECTS
from benchmarks.attacks.outside import HANGING, OTHER, create
from benchmarks.attacks.target import Attack, Run, Target, attacks, head, many, post, read_response
from benchmarks.attacks.workloads import CONTROLLED

MAPS: Final = "/api/v1/namespaces/default/configmaps"
_PODS: Final = "/api/v1/namespaces/default/pods"
_LABELS: Final = {"app": "hostile"}
_CONNECTIONS: Final = 40


def _each(request: Callable[[int], bytes], connections: int = _CONNECTIONS) -> Run:
    """Requests that differ, on so many connections."""

    async def some(target: Target, first: int) -> None:
        number = first
        while True:
            try:
                async with await target.connect() as stream:
                    while True:
                        await stream.send_all(request(number))
                        number += connections
                        if not await read_response(stream):
                            break
            except (trio.BrokenResourceError, OSError):
                pass
            await trio.sleep(0.01)

    async def attack(target: Target) -> None:
        async with trio.open_nursery() as nursery:
            for first in range(connections):
                nursery.start_soon(some, target, first)
            await target.over()
            nursery.cancel_scope.cancel()

    return attack


def _past(number: int) -> bytes:
    at = random.Random(number).randrange(OBJECTS // 2, OBJECTS)
    return head("GET", f"{COLLECTION}?at={at}&limit=3000", token=HANGING)


def _exact(number: int) -> bytes:
    at = random.Random(number).randrange(OBJECTS // 2, OBJECTS)
    return head("GET", f"{COLLECTION}?resourceVersion={at}&resourceVersionMatch=Exact", token=HANGING)


def _length(size: int) -> bytes:
    encoded = b""
    while size > 127:
        encoded += bytes((size & 127 | 128,))
        size >>= 7
    return encoded + bytes((size,))


def _many_entries(count: int = 700_000) -> bytes:
    """A ConfigMap in protobuf whose map has so many entries, all with the same key."""
    entries = b"\x12\x02\x0a\x00" * count
    return b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + _length(len(entries)) + entries


async def _entries(target: Target) -> None:
    request = post(MAPS, _many_entries(), token=HANGING, kind="vnd.kubernetes.protobuf")
    await many(target, 20, request)


def _applied(number: int) -> bytes:
    """Fewer values than a worker thread takes."""
    name = f"applied-{number % _CONNECTIONS}"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    body["data"] = {f"k{key}": str(number) for key in range(550)}  # type: ignore[assignment]
    path = f"{MAPS}/{name}?fieldManager=m{number % 7}&force=true"
    return post(path, json.dumps(body).encode(), token=HANGING, method="PATCH", kind="apply-patch+yaml")


def _token(number: int) -> bytes:
    body = {"spec": {"audiences": [f"a{audience}" for audience in range(500)]}}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    return post(path, json.dumps(body).encode(), token=HANGING)


async def _finalized(target: Target) -> None:
    for number in range(4000):
        metadata = {"name": f"f{number}", "labels": {"x": "y"}, "finalizers": ["example.com/f"]}
        await create(target, MAPS, {"metadata": metadata, "data": {"a": "x" * 1000}})


def _long_target(number: int) -> bytes:
    """Paths of escapes, and queries of parameters, far beyond what clients need."""
    if number % 2:
        return head("GET", "/apis/" + "%41" * 300_000, token="")
    return head("GET", "/version?" + "&".join(["a=b"] * 240_000), token="")


async def _services(target: Target) -> None:
    """Services that all select the same pods."""
    ports = [{"name": f"p{number}", "port": 80 + number} for number in range(10)]
    for number in range(800):
        spec = {"selector": _LABELS, "clusterIP": "None", "ports": ports}
        body = {"metadata": {"name": f"s{number}"}, "spec": spec}
        await create(target, "/api/v1/namespaces/default/services", body)


def _pod(number: int) -> bytes:
    containers = [{"name": "c", "image": "i"}]
    body: dict[str, Any] = {
        "metadata": {"generateName": "n-", "labels": _LABELS},
        "spec": {"containers": containers},
    }
    return post(_PODS, json.dumps(body).encode(), token=HANGING)


_LONG: Final[dict[str, Run]] = {
    "20 lists of 3,000 with ?at=, same level": _each(_past, 20),
    "20 lists at exact versions, same level": _each(_exact, 20),
}
NEIGHBOURS: Final[dict[str, Attack]] = {
    **attacks("users who may list", _LONG, collection=True, other=OTHER),
    **attacks("users who may write", {"applies of 550 keys": _each(_applied)}, other=OTHER),
    **attacks("users who may request tokens", {"token requests": _each(_token)}, other=OTHER),
    "maps of 700,000 entries in protobuf": Attack(
        _entries, "users who may write", other=OTHER, dialect="kubernetes"
    ),
    "deletions of 4,000 with finalizers": Attack(
        _each(lambda _: head("DELETE", f"{MAPS}?labelSelector=x%3Dy", token=HANGING)),
        "users who may write",
        prepare=_finalized,
        other=OTHER,
    ),
    **attacks("anybody", {"long paths and queries": _each(_long_target)}, other=OTHER),
    "pods that 800 Services select": Attack(
        _each(_pod, 8),
        "users who may write in a namespace of a server with --nodes",
        prepare=_services,
        other=OTHER,
        flags=CONTROLLED["500-disruption-budgets"].flags,
    ),
}

"""Anonymous requests to every path that the server lists, with every method, get 403; without anonymous access 401.

Only health and version are open to everyone. The paths are those of the root document, of discovery and of OpenAPI:
what the server lists, so that a new path is tested without a change here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import trio

from tests.gateway.api import Api, served

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OPEN = {"/healthz", "/livez", "/readyz", "/version", "/version/"}
BATCH = 200  # requests that are sent before their responses are read

Sent = tuple[str, str]  # method and path


async def listed_paths(api: Api) -> set[str]:
    paths = set((await api.ask("GET", "/")).expect(200)["paths"])
    paths |= set((await api.ask("GET", "/openapi/v2")).expect(200)["paths"])
    versions = ["/api/v1"]
    for group in (await api.ask("GET", "/apis")).expect(200)["groups"]:
        versions += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for version in versions:
        for resource in (await api.ask("GET", version)).expect(200)["resources"]:
            paths |= set(_paths_of(version, resource))
    return {_filled(path) for path in paths}


def _paths_of(version: str, resource: dict[str, Any]) -> Iterator[str]:
    plural, _, subresource = resource["name"].partition("/")
    where = f"{version}/namespaces/default" if resource["namespaced"] else version
    suffix = f"/{subresource}" if subresource else ""
    if not subresource:
        yield f"{where}/{plural}"
        yield f"{version}/{plural}"
        yield f"{version}/watch/{plural}"
        yield f"{where}/{plural}?watch=true"
        yield f"{where}/{plural}?fieldSelector=metadata.name%3Da"
    yield f"{where}/{plural}/a{suffix}"


def _filled(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: "default" if found[1] == "namespace" else "a", path)


async def statuses(api: Api, sent: list[Sent]) -> list[int]:
    """Send requests without credentials, pipelined because there are thousands of them."""
    assert api.addresses.insecure is not None
    stream = await trio.open_tcp_stream(*api.addresses.insecure)
    found: list[int] = []
    async with stream:
        remaining = iter(sent)
        while batch := list(islice(remaining, BATCH)):
            async with trio.open_nursery() as nursery:
                lines = [f"{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n" for method, path in batch]
                nursery.start_soon(stream.send_all, "".join(lines).encode())
                found += await _read(stream, batch)
    return found


async def _read(stream: trio.SocketStream, batch: list[Sent]) -> list[int]:
    received, found = b"", []
    for method, _ in batch:
        while b"\r\n\r\n" not in received:
            received += await stream.receive_some()
        head, _, received = received.partition(b"\r\n\r\n")
        found.append(int(head[9:12]))
        length = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
        assert length is not None, head
        size = 0 if method == "HEAD" else int(length[1])
        while len(received) < size:
            received += await stream.receive_some()
        received = received[size:]
    return found


@pytest.mark.parametrize("anonymous", [True, False])
async def test_anonymous_requests_reach_nothing_but_health_and_version(anonymous: bool) -> None:
    async with served(authorization_mode="Node,RBAC", anonymous_auth=anonymous) as api:
        paths = sorted(await listed_paths(api))
        assert len(paths) > 300
        assert OPEN - {"/version"} <= {*paths, "/version/"}
        requests = [(method, path) for path in (*paths, "/version") for method in METHODS]
        found = await statuses(api, requests)
    refusal = 403 if anonymous else 401
    for (method, path), status in zip(requests, found, strict=True):
        expected = 200 if anonymous and path in OPEN and method == "GET" else refusal
        assert status == expected, (method, path, status)

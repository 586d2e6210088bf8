"""A request is refused before its body is read, whatever HTTP it speaks, and large bodies wait for memory."""

from __future__ import annotations

import pytest
import trio

from rewound.gateway.memory.process import ProcessMemory
from tests.gateway.api import ADMIN, ALICE, Api, served
from tests.gateway.connections.http2.raw_client import RawClient
from tests.gateway.connections.http_server import Client

PODS = "/api/v1/namespaces/default/configmaps"


def head(path: str = PODS, token: str | None = None, *, method: str = "POST", more: str = "") -> bytes:
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: t\r\n{authorization}{more}"
        "Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"
    ).encode()


async def status(api: Api, data: bytes) -> int:
    assert api.addresses.insecure is not None
    stream = await trio.open_tcp_stream(*api.addresses.insecure)
    async with stream:
        return (await Client(stream).request(data)).status


async def test_requests_are_refused_before_their_body_is_read() -> None:
    async with served() as api:
        assert await status(api, head(token="wrong")) == 401
        assert await status(api, head()) == 403
        assert await status(api, head(token=ALICE)) == 403
        assert await status(api, head("/api/v1/nothings", ADMIN)) == 404
        assert await status(api, head("/apis/no.such/v1/nothings", ADMIN)) == 404
        assert await status(api, head("/version", ADMIN)) == 405
        assert await status(api, head("/api/v1/namespaces/default", ADMIN)) == 405
        assert await status(api, head(PODS, ADMIN, more="Accept: image/png\r\n")) == 406


async def test_expected_body_is_read_only_if_allowed() -> None:
    expect = "Expect: 100-continue\r\n"
    async with served() as api:
        assert await status(api, head(token="wrong", more=expect)) == 401
        assert await status(api, head(token=ADMIN, more=expect)) == 100


async def http2_status(api: Api, path: str, token: str | None = None, **more: str) -> int:
    assert api.addresses.insecure is not None
    fields = {"content-type": "application/json", "content-length": "3000000", **more}
    if token is not None:
        fields["authorization"] = f"Bearer {token}"
    stream = await trio.open_tcp_stream(*api.addresses.insecure)
    async with stream:
        client = RawClient(stream)
        await client.open()
        number = await client.request(path, method="POST", fields=list(fields.items()), end=False)
        return int(dict((await client.head(number)).fields)[b":status"])


async def test_requests_over_http2_are_refused_before_their_body_is_read() -> None:
    async with served() as api:
        assert await http2_status(api, PODS, "wrong") == 401
        assert await http2_status(api, PODS) == 403
        assert await http2_status(api, PODS, ALICE) == 403
        assert await http2_status(api, "/api/v1/nothings", ADMIN) == 404
        assert await http2_status(api, "/version", ADMIN) == 405
        assert await http2_status(api, PODS, ADMIN, accept="image/png") == 406
        assert await http2_status(api, PODS, ADMIN, expect="100-continue") == 100
        assert await http2_status(api, PODS, "wrong", expect="100-continue") == 401


async def test_process_above_its_memory_limit_serves_operators_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    monkeypatch.setattr(ProcessMemory, "_refresh", lambda *_: 0)
    monkeypatch.setattr(ProcessMemory, "is_full", lambda _: True)
    async with served(dialect="kubernetes") as api:
        refused = await api.ask("POST", path, review, token=ALICE)
        assert refused.expect(429)["reason"] == "TooManyRequests"
        assert refused.headers["retry-after"] == "1"
        (await api.ask("POST", path, review)).expect(201)
        assert (await api.ask("GET", "/readyz")).status == 200
        monkeypatch.undo()
        (await api.ask("POST", path, review, token=ALICE)).expect(201)

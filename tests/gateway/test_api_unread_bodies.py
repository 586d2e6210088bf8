"""A request is refused before its body is read, whatever HTTP it speaks, and large bodies wait for memory."""

from __future__ import annotations

import trio

from tests.gateway.api import ADMIN, ALICE, Api, served
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

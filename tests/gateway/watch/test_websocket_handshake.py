"""The handshake of a WebSocket follows the standard; a refusal is an ordinary HTTP response."""

from __future__ import annotations

import orjson
import pytest

from tests.gateway.api import ALICE, config_map, served
from tests.gateway.connections.http_server import Client
from tests.gateway.watch.watching import connect, request
from tests.gateway.watch.websocket_client import KEY, PING, PONG, UPGRADE, masked, websocket_client
from tests.settling import settled

PATH = "/api/v1/namespaces/default/configmaps"


async def test_accept_key_is_that_of_the_standard() -> None:
    # The example of RFC 6455, section 1.3.
    headers = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    async with served() as api, websocket_client(api, f"{PATH}?watch=1", headers=headers) as raw:
        assert raw.status == 101
        assert raw.headers[b"sec-websocket-accept"] == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert raw.headers[b"upgrade"] == b"websocket"
        assert raw.headers[b"connection"] == b"Upgrade"
        assert b"sec-websocket-protocol" not in raw.headers
        assert b"transfer-encoding" not in raw.headers


@pytest.mark.parametrize("path", [f"{PATH}?watch=1", "/api/v1/watch/configmaps", f"{PATH}/a?watch=true"])
async def test_every_watch_path_accepts_a_websocket(path: str) -> None:
    async with served() as api, websocket_client(api, path) as raw:
        assert raw.status == 101
        await api.create("configmaps", config_map("a"))
        while True:
            event = (await raw.frame()).event
            if event["object"]["metadata"]["name"] == "a":
                break


@pytest.mark.parametrize(
    "upgrade",
    [{"Upgrade": "WebSocket"}, {"Upgrade": "h2c, websocket"}, {"Connection": "keep-alive, upgrade"}],
)
async def test_upgrade_headers_in_other_forms_are_accepted(upgrade: dict[str, str]) -> None:
    async with served() as api, websocket_client(api, f"{PATH}?watch=1", headers=upgrade) as raw:
        assert raw.status == 101


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Version": ""}, 426),
        ({"Sec-WebSocket-Key": ""}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Key": KEY + "AAAA"}, 400),
        ({"Sec-WebSocket-Key": "!" * 24}, 400),
    ],
)
async def test_invalid_handshake_is_refused_and_the_connection_continues(
    headers: dict[str, str], status: int
) -> None:
    async with served() as api:
        stream = await connect(api)
        client = Client(stream)
        handshake = request(f"{PATH}?watch=1", headers={**UPGRADE, **headers})
        # After the refusal, HTTP continues on the connection.
        reply = await client.request(handshake + request(PATH))
        document = orjson.loads(reply.body)
        assert (reply.status, document["kind"], document["code"]) == (status, "Status", status)
        assert reply.headers[b"sec-websocket-version"] == b"13"
        assert (await client.reply()).status == 200
        assert (await client.request(request(f"{PATH}/none"))).status == 404
        await stream.aclose()


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        (f"{PATH}?watch=1", "wrong", 401),
        (f"{PATH}?watch=1", ALICE, 403),
        ("/api/v1/nothings?watch=1", "admin-token", 404),
        (f"{PATH}?watch=1&resourceVersion=x", "admin-token", 400),
        (f"{PATH}?watch=1&resourceVersionMatch=Exact", "admin-token", 422),
    ],
)
async def test_handshake_is_refused_like_a_request(path: str, token: str, status: int) -> None:
    async with served() as api, websocket_client(api, path, token=token) as raw:
        assert raw.status == status


async def test_upgrade_of_a_list_is_ignored() -> None:
    async with served() as api:
        stream = await connect(api)
        client = Client(stream)
        for _ in range(3):
            reply = await client.request(request(PATH, headers=UPGRADE))
            assert (reply.status, orjson.loads(reply.body)["kind"]) == (200, "ConfigMapList")
        await stream.aclose()


async def test_frames_sent_with_the_handshake_are_read() -> None:
    async with (
        served() as api,
        websocket_client(api, f"{PATH}?watch=1", extra=masked(PING, b"early")) as raw,
    ):
        frames = [await raw.frame()]
        while frames[-1].opcode != PONG:
            frames.append(await raw.frame())
        assert frames[-1].payload == b"early"


async def test_pipelined_responses_precede_the_handshake() -> None:
    async with served() as api:
        stream = await connect(api)
        await stream.send_all(request(f"{PATH}/none") + request(f"{PATH}?watch=1", headers=UPGRADE))
        client = Client(stream)
        assert (await client.reply()).status == 404
        assert (await client.reply()).status == 101
        await stream.aclose()


async def test_http_1_0_upgrade_is_ignored() -> None:
    async with served() as api:
        stream = await connect(api)
        lines = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
        await stream.send_all(
            f"GET {PATH}?watch=1 HTTP/1.0\r\nAuthorization: Bearer admin-token\r\n{lines}\r\n".encode()
        )
        await settled()
        assert await stream.receive_some(15) == b"HTTP/1.1 200 OK"
        await stream.aclose()

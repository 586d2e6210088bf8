"""Extensions (RFC 9113, section 5.5): unknown frames and unknown settings are ignored, wherever they arrive."""

from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, echo
from tests.gateway.connections.http2.raw_client import data, frame, headers, raw_client, settings
from tests.gateway.connections.http_server import served

# ALTSVC, ORIGIN and PRIORITY_UPDATE are registered; the server does not know them either.
UNKNOWN = [0x0A, 0x0C, 0x10, 0x16, 0xFF]


@cases("kind", UNKNOWN)
async def test_unknown_frames_are_ignored_everywhere(kind: int) -> None:
    async with served(echo) as host, raw_client(host) as client:
        await client.send(
            frame(kind, b"no stream"),
            frame(kind, b"an idle stream", stream=1),
            frame(kind, b"a stream of the server", stream=2),
            headers(1, client.block(method="PUT"), end=False),
            frame(kind, b"an open stream", stream=1),
            data(1, b"one"),
            frame(kind, b"", flags=0xFF, stream=1),
            data(1, b"two", end=True),
            frame(kind, b"an ended stream", stream=1),
        )
        assert (await client.response(1)).body == b"onetwo"
        await client.send(frame(kind, b"a closed stream", stream=1))
        assert await client.alive() == []


async def test_unknown_frames_are_ignored_while_a_request_runs() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(frame(0x20, b"x", stream=stream))
        assert await client.alive() == []
        gate.open.set()
        assert (await client.response(stream)).body == b"/wait"


async def test_unknown_frame_of_the_maximum_size_is_skipped() -> None:
    async with served(echo) as host, raw_client(host) as client:
        await client.send(frame(0x20, b"\1" * 16_384), frame(0x20, b"\0" * 16_384))
        assert (await client.response(await client.request(method="PUT", body=b"x"))).body == b"x"


async def test_unknown_frames_consume_no_window() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        for _ in range(20):
            await client.send(frame(0x20, bytes(16_000), stream=stream))
        await client.send(data(stream, b"x", end=True))
        assert (await client.response(stream)).body == b"x"


@cases("setting", [0, 7, 9, 0x10, 0xFFFF])
async def test_unknown_settings_are_acknowledged(setting: int) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(settings({setting: 0}))
        await client.settings_ack()
        await client.send(settings({setting: 2**32 - 1}))
        await client.settings_ack()
        assert (await client.response(await client.request())).status == 200

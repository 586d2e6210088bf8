"""PRIORITY, RST_STREAM and PUSH_PROMISE (RFC 9113, sections 5.3, 6.3, 6.4 and 6.6)."""

import pytest

from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate
from tests.gateway.connections.http2.raw_client import (
    PRIORITY,
    PUSH_PROMISE,
    ErrorCode,
    RawClient,
    Setting,
    frame,
    headers,
    priority,
    priority_fields,
    raw_client,
    rst_stream,
)
from tests.gateway.connections.http_server import served


async def works(client: RawClient) -> bool:
    return (await client.response(await client.request())).status == 200


@cases("stream", [1, 2, 3, 2**31 - 1])
@cases("exclusive", [False, True])
async def test_priority_is_ignored_on_any_stream(stream: int, exclusive: bool) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(priority(stream, 5, weight=256, exclusive=exclusive))
        assert await works(client)
        await client.send(priority(stream, 1, exclusive=exclusive))
        assert await client.alive() == []


async def test_priority_is_ignored_while_a_request_runs() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(priority(stream, 7), priority(7, stream))  # a cycle of dependencies
        assert await client.alive() == []
        gate.open.set()
        assert (await client.response(stream)).status == 200


async def test_dependency_of_a_stream_on_itself_is_ignored() -> None:
    """RFC 9113 deprecates priorities; RFC 7540 had a stream error for this."""
    async with served() as host, raw_client(host) as client:
        await client.send(headers(1, client.block(), priority=priority_fields(1)))
        assert (await client.response(1)).status == 200
        await client.send(priority(3, 3))
        client.new_stream()
        assert await works(client)


async def test_priority_on_stream_zero_is_a_connection_error() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(priority(0))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


@cases("size", [0, 4, 6])
async def test_priority_of_a_wrong_size_is_a_stream_error(size: int) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(frame(PRIORITY, bytes(size), stream=stream))
        assert await client.error_on(stream) is ErrorCode.FRAME_SIZE_ERROR


async def test_reset_of_stream_zero_is_a_connection_error() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(rst_stream(0))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


@cases("stream", [1, 2, 101])
async def test_reset_of_an_idle_stream_is_a_connection_error(stream: int) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(rst_stream(stream))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


@cases("stream", [0, 1, 3])
async def test_client_may_not_push(stream: int) -> None:
    async with served() as host, raw_client(host) as client:
        await client.request(method="PUT", end=False)
        await client.send(frame(PUSH_PROMISE, b"\0\0\0\2" + client.block(), flags=4, stream=stream))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize("push", [0, 1])
async def test_server_never_pushes(push: int) -> None:
    async with served() as host, raw_client(host, values={Setting.ENABLE_PUSH: push}) as client:
        assert (
            Setting.ENABLE_PUSH not in client.server_settings
            or not client.server_settings[Setting.ENABLE_PUSH]
        )
        assert await works(client)
        assert await client.alive() == []

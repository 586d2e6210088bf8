"""PING and GOAWAY (RFC 9113, sections 6.7 and 6.8), from the client and from a server that stops."""

from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, Recorder
from tests.gateway.connections.http2.raw_client import (
    ACK,
    GOAWAY,
    PING,
    RST_STREAM,
    ErrorCode,
    data,
    frame,
    goaway,
    headers,
    ping,
    raw_client,
)
from tests.gateway.connections.http_server import served


@cases("payload", [b"pingpong", bytes(8), b"\xff" * 8])
async def test_ping_is_acknowledged_with_its_payload(payload: bytes) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(ping(payload))
        reply = await client.take(lambda frame: frame.kind == PING)
        assert (reply.flags, reply.stream, reply.payload) == (ACK, 0, payload)


async def test_pings_are_acknowledged_in_order() -> None:
    async with served() as host, raw_client(host) as client:
        payloads = [b"ping%04d" % number for number in range(5)]
        await client.send(*(ping(payload) for payload in payloads))
        for payload in payloads:
            assert (await client.take(lambda frame: frame.kind == PING)).payload == payload


async def test_ping_acknowledgement_gets_no_reply() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(ping(ack=True))
        assert await client.alive() == []


async def test_ping_is_acknowledged_while_requests_run() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        upload = await client.request(method="PUT", end=False)
        assert await client.alive() == []
        gate.open.set()
        await client.send(data(upload, b"x", end=True))
        assert (await client.response(stream)).status == (await client.response(upload)).status == 200


@cases("kind", [PING, GOAWAY])
@cases("stream", [1, 3, 2])
async def test_frames_of_the_connection_on_a_stream_are_connection_errors(kind: int, stream: int) -> None:
    async with served() as host, raw_client(host) as client:
        await client.request(method="PUT", end=False)
        await client.send(frame(kind, bytes(8), stream=stream))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


async def test_running_requests_complete_after_goaway_of_the_client() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        running = await client.request("/wait")
        upload = await client.request(method="PUT", end=False)
        await client.send(goaway(), data(upload, b"x", end=True))
        assert (await client.response(upload)).status == 200
        gate.open.set()
        assert (await client.response(running)).status == 200


async def test_goaway_may_be_repeated() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        running = await client.request("/wait")
        await client.send(goaway(), goaway(0, ErrorCode.INTERNAL_ERROR, b"again"))
        await gate.entered.wait()
        gate.open.set()
        assert (await client.response(running)).status == 200


async def test_stopping_server_completes_requests_and_closes() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        first, second = await client.request("/wait/1"), await client.request("/wait/2")
        await client.alive()
        host.stop.set()
        code, _last = await client.goaway()
        assert code is ErrorCode.NO_ERROR
        gate.open.set()
        assert (await client.response(first)).body == b"/wait/1"
        assert (await client.response(second)).body == b"/wait/2"
        await client.closed()
        await client.stream.aclose()
        await host.stopped.wait()


async def test_last_goaway_of_a_stopping_server_names_the_last_stream() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        await client.response(await client.request("/done"))
        last = await client.request("/wait")
        await client.alive()
        host.stop.set()
        gate.open.set()
        await client.response(last)
        await client.closed()
        named = [int.from_bytes(frame.payload[:4]) for frame in client.frames if frame.kind == GOAWAY]
        assert named[-1] == last
        assert sorted(named, reverse=True) == named


async def test_upload_that_runs_when_the_server_stops_completes() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.alive()
        host.stop.set()
        await client.goaway()
        await client.send(data(stream, b"the rest", end=True))
        assert (await client.response(stream)).status == 200
        assert recorder.requests[0].body == b"the rest"


async def test_requests_after_goaway_are_not_handled() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        running = await client.request("/wait")
        await client.alive()
        host.stop.set()
        _, last = await client.goaway()
        assert last == running
        late = client.new_stream()
        await client.send(headers(late, client.block("/late")))
        resets = [frame for frame in await client.alive() if frame.kind == RST_STREAM]
        assert all((frame.stream, frame.code) == (late, ErrorCode.REFUSED_STREAM) for frame in resets)
        gate.open.set()
        assert (await client.response(running)).status == 200
        await client.closed()
        assert gate.paths == ["/wait"]


async def test_pings_are_acknowledged_while_the_server_drains() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        running = await client.request("/wait")
        await client.alive()
        host.stop.set()
        await client.goaway()
        await client.alive(b"draining")
        gate.open.set()
        assert (await client.response(running)).status == 200


async def test_goaway_of_an_error_names_no_later_stream_than_that_of_the_stop() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        running = await client.request("/wait")
        await client.alive()
        host.stop.set()
        assert await client.goaway() == (ErrorCode.NO_ERROR, running)
        await client.request("/late")
        await client.send(frame(PING, b"short"))
        assert await client.goaway() == (ErrorCode.FRAME_SIZE_ERROR, running)

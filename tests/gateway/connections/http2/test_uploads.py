"""Bodies on several streams of one connection: at the same time they are bounded, one after the other they are not."""

import trio

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import ForwardingClient, Report, Request, Response
from tests.gateway.connections.http2.raw_client import ErrorCode, data, raw_client, rst_stream
from tests.gateway.connections.http_server import served

MIB = 1024 * 1024
PART = bytes(3 * MIB)


async def measure(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


async def test_incomplete_bodies_of_a_connection_are_bounded_together() -> None:
    async with served(measure) as host, raw_client(host) as client:
        streams = [await client.request(method="PUT", body=PART, end=False) for _ in range(6)]
        # The limit is 16 MiB: the sixth body does not fit, and its client may send it again later.
        assert (await client.response(streams[5])).status == 429
        assert await client.reset_of(streams[5]) is ErrorCode.NO_ERROR
        await client.send(*(data(stream, end=True) for stream in streams[:5]))
        for stream in streams[:5]:
            assert (await client.response(stream)).body == b"%d" % len(PART)
        again = await client.request(method="PUT", body=PART)
        assert (await client.response(again)).status == 200


async def test_complete_and_abandoned_bodies_no_longer_count() -> None:
    async with served(measure, Limits(body=2 * len(PART))) as host, raw_client(host) as client:
        for _ in range(6):  # 18 MiB of each kind
            complete = await client.request(method="PUT", body=PART)
            assert (await client.response(complete)).status == 200
            abandoned = await client.request(method="PUT", body=PART, end=False)
            await client.send(rst_stream(abandoned))
            malformed = await client.request(
                method="PUT", fields=[("content-length", str(len(PART) + 1))], body=PART
            )
            assert await client.reset_of(malformed) is ErrorCode.PROTOCOL_ERROR


class ForwardedEcho:
    report: Report | None = None

    async def run(self, client: ForwardingClient) -> None:
        body = b""
        while part := await client.receive_body():
            body += part
        await client.respond(Response(200, body))


async def test_body_that_has_arrived_before_its_request_is_forwarded_is_forwarded() -> None:
    handled = trio.Event()

    async def wait_and_forward(request: Request) -> Response:
        handled.set()
        with trio.fail_after(60):
            while not request.body:  # it waits for a webhook, say
                await trio.lowlevel.checkpoint()
        return Response(200, b"", forwarding=ForwardedEcho())

    async with served(wait_and_forward, reads=False) as host, raw_client(host) as client:
        stream = await client.request(method="POST", end=False)
        await handled.wait()
        await client.send(data(stream, b"abc", end=True))
        assert (await client.response(stream)).body == b"abc"

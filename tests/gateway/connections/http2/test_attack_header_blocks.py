"""Header blocks that flood, or expand to far more than their bytes, cost no more than their bytes."""

from __future__ import annotations

import tracemalloc

import pytest
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.cases import cases
from tests.gateway.connections.http2.attacks import attacked, block, counted_calls, expect_calm
from tests.gateway.connections.http2.raw_client import (
    ErrorCode,
    RawClient,
    continuation,
    headers,
    raw_client,
)
from tests.gateway.connections.http_server import hello, served
from tests.settling import advance, settled

# Less than the defaults, because large heads take long to send.
SMALL = Limits(target=64 * 1024, http2_head=128 * 1024, headers=200)

FRAME = 16_384


def bomb() -> bytes:
    """A field of 4 kB that fills the table: later blocks refer to it with one byte."""
    size = 4000
    rest = size - 127
    return b"\x40\x01a\x7f" + bytes([rest & 0x7F | 0x80, rest >> 7]) + b"x" * size


SAFE_GET = block()
ENTRY = b"\xbe"


@pytest.mark.parametrize("size", [0, 1], ids=["empty", "tiny"])
async def test_flood_of_continuations_ends_the_connection(size: int) -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await client.send(
            headers(1, SAFE_GET, done=False), *[continuation(1, b"\xbf" * size, done=False)] * 200
        )
        await expect_calm(client)
        assert host.statistics.requests == 0


async def test_block_that_is_too_large_in_total_ends_the_connection() -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await client.send(headers(1, SAFE_GET, done=False), *[continuation(1, bytes(FRAME), done=False)] * 9)
        await expect_calm(client)


@pytest.mark.parametrize("size", [9, 12], ids=["frames", "pieces"])
async def test_block_without_end_is_closed(size: int, mock_clock: MockClock) -> None:
    """However often the peer sends a little more of it."""
    async with served(limits=SMALL) as host, attacked(host) as client:
        await client.send(headers(1, SAFE_GET, done=False))
        more = continuation(1, b"", done=False) * 10
        for at in range(0, 7 * size, size):
            await client.send(more[at : at + size])
            await advance(mock_clock, 5)
        await client.goaway()
        assert host.statistics.requests == 0


async def test_frames_amid_a_header_block_end_the_connection() -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await client.send(headers(1, SAFE_GET, done=False), headers(3, SAFE_GET))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


def frames(stream: int, whole: bytes) -> list[bytes]:
    first, *others = [whole[at : at + FRAME] for at in range(0, len(whole), FRAME)]
    last = len(others) - 1
    return [
        headers(stream, first, done=not others),
        *(continuation(stream, part, done=index == last) for index, part in enumerate(others)),
    ]


async def prime(client: RawClient) -> None:
    await client.send(headers(client.new_stream(), SAFE_GET + bomb()))
    assert (await client.response(1)).status == 200


@cases("count", [10, 31, 1000, 100_000])
async def test_repeated_entries_of_the_table_are_refused(count: int) -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await prime(client)
        await client.send(*frames(3, SAFE_GET + ENTRY * count))
        assert (await client.response(3)).status == 431
        assert host.statistics.requests == 1
        await client.send(headers(5, SAFE_GET))
        assert (await client.response(5)).status == 200


async def test_work_for_a_block_is_bounded_by_its_bytes() -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await prime(client)
        with counted_calls() as calls:
            await client.send(headers(3, SAFE_GET + ENTRY * 16_000))
            assert (await client.response(3)).status == 431
        assert sum(calls.values()) < 500


async def test_fields_beyond_the_limit_of_a_list_are_not_decoded_without_end() -> None:
    """Short fields that enter the table: the server would have to decode them only to keep the table in sync."""
    async with served(limits=SMALL) as host, attacked(host) as client:
        await client.send(*frames(1, SAFE_GET + b"\x40\x01a\x01b" * 20_000))
        with counted_calls() as calls:
            await expect_calm(client)
        assert sum(calls.values()) < 60_000
        assert host.statistics.requests == 0


async def test_reference_beyond_the_table_is_an_error_also_after_the_limit() -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await prime(client)
        await client.send(*frames(3, SAFE_GET + ENTRY * 1000 + b"\xc0" + ENTRY * 1000))
        assert (await client.goaway())[0] is ErrorCode.COMPRESSION_ERROR


async def test_heads_of_many_requests_in_progress_take_little_memory(mock_clock: MockClock) -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await prime(client)
        posts = [b"\x83\x84\x86\x01\x04test\x0f\x2b%c%d" % (len(str(n)), n) for n in range(250)]
        sent = b"".join(
            headers(2 * number + 3, post + ENTRY * 3, end=False) for number, post in enumerate(posts)
        )
        tracemalloc.start()
        try:
            await client.send(sent)
            await client.alive()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert not [frame for frame in client.frames if frame.stream]  # they wait for their bodies
        assert held < 8_000_000


async def test_cached_heads_take_little_memory(mock_clock: MockClock) -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await prime(client)
        tracemalloc.start()
        try:
            for number in range(50):
                await client.send(
                    headers(2 * number + 3, SAFE_GET + b"\x0f\x2b\x01%c" % (48 + number) + ENTRY * 4)
                )
                assert (await client.response(2 * number + 3)).status == 200
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 1_000_000


async def test_table_sizes_that_swing_are_harmless() -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        swings = b"\x20\x3f\xe1\x1f" * 4000
        for number in (1, 3, 5):
            await client.send(headers(number, swings + SAFE_GET))
            assert (await client.response(number)).status == 200


async def test_table_that_always_changes_is_harmless() -> None:
    async def handle(request: Request) -> Response:
        return Response(200, b"%d" % len(request.headers.get(b"a", b"")))

    async with served(handle) as host, attacked(host) as client:
        for number in range(1, 100, 2):
            await client.send(headers(number, SAFE_GET + bomb() * 4))
            assert (await client.response(number)).body == b"4000"  # equal lines count once


@pytest.mark.parametrize("huffman", [False, True], ids=["plain", "Huffman"])
async def test_huge_literals_count_as_what_they_decode_to(huffman: bool) -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        # "0" takes five bits: 100 kB of these are 160 kB of text.
        length = 100_000 if huffman else 127_000
        rest = length - 127
        first = 0xFF if huffman else 0x7F
        size = bytes([first, rest & 0x7F | 0x80, rest >> 7 & 0x7F | 0x80, rest >> 14])
        text = bytes(length) if huffman else b"x" * length
        await client.send(*frames(1, SAFE_GET + b"\x00\x01a" + size + text))
        assert (await client.response(1)).status == (431 if huffman else 200)
        await client.alive()


async def test_string_that_is_longer_than_its_block_ends_the_connection() -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await client.send(headers(1, SAFE_GET + b"\x00\x01a\x7f\xff\xff\xff\xff\x07"))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR


async def test_integer_without_end_ends_the_connection() -> None:
    async with served(limits=SMALL) as host, attacked(host) as client:
        await client.send(headers(1, SAFE_GET + b"\xff" + b"\x80" * 10_000))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR


async def test_more_headers_than_allowed_are_refused() -> None:
    async with served(hello, Limits(headers=50)) as host, raw_client(host) as client:
        fields = [(f"h{number}", "x") for number in range(51)]
        assert (await client.response(await client.request(fields=fields))).status == 431
        assert (await client.response(await client.request())).status == 200
        await settled()

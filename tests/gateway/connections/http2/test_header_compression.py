"""Header blocks (RFC 9113, section 4.3; RFC 7541): every representation, errors, and one table for all streams."""

import pytest

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request
from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, Recorder
from tests.gateway.connections.http2.raw_client import (
    ErrorCode,
    RawClient,
    Setting,
    continuation,
    headers,
    raw_client,
    rst_stream,
    settings,
)
from tests.gateway.connections.http_server import served

# GET, http, authority "test" as a literal without indexing, path "/".
BASE = b"\x82\x86\x01\x04test\x84"

REPRESENTATIONS = {
    "indexed": (b"\x90", b"accept-encoding", b"gzip, deflate"),
    "literal with indexing": (b"\x40\x01a\x01b", b"a", b"b"),
    "literal with indexing, indexed name": (b"\x53\x02de", b"accept", b"de"),
    "literal without indexing": (b"\x00\x01a\x01b", b"a", b"b"),
    "literal without indexing, indexed name": (b"\x0f\x04\x02de", b"accept", b"de"),
    "literal never indexed": (b"\x10\x01a\x01b", b"a", b"b"),
    "literal never indexed, indexed name": (b"\x1f\x04\x02de", b"accept", b"de"),
    "Huffman name and value": (b"\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
                               b"custom-key", b"custom-value"),
    "empty value": (b"\x00\x01a\x00", b"a", b""),
    "empty Huffman value": (b"\x00\x01a\x80", b"a", b""),
    "value of 200 bytes": (b"\x00\x01a\x7f\x49" + b"v" * 200, b"a", b"v" * 200),
    "integer with superfluous zero byte": (b"\x00\x01a\x7f\x80\x00" + b"v" * 127, b"a", b"v" * 127),
    "bytes beyond ASCII": (b"\x00\x01a\x02\xc3\xa9", b"a", b"\xc3\xa9"),
}  # fmt: skip


async def sent(client: RawClient, recorder: Recorder, block: bytes) -> Request:
    stream = client.new_stream()
    await client.send(headers(stream, block))
    assert (await client.response(stream)).status == 200
    return recorder.requests[-1]


@cases(("field", "name", "value"), REPRESENTATIONS.values(), ids=REPRESENTATIONS)
async def test_every_representation_decodes(field: bytes, name: bytes, value: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        for _ in range(2):  # with and without the server's cached block
            request = await sent(client, recorder, BASE + field)
            assert request.headers[name] == value


async def test_table_is_shared_by_all_streams() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await sent(client, recorder, BASE + b"\x40\x01a\x01b")
        assert (await sent(client, recorder, BASE + b"\xbe")).headers[b"a"] == b"b"
        await sent(client, recorder, BASE + b"\x40\x01c\x01d")
        request = await sent(client, recorder, BASE + b"\xbe\xbf")
        assert (request.headers[b"c"], request.headers[b"a"]) == (b"d", b"b")


async def test_same_block_means_something_else_once_the_table_has_changed() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        for value in (b"1", b"2", b"3"):
            await sent(client, recorder, BASE + b"\x40\x01a\x01" + value)
            for _ in range(2):
                assert (await sent(client, recorder, BASE + b"\xbe")).headers[b"a"] == value


async def test_same_block_adds_its_entries_every_time() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await sent(client, recorder, BASE + b"\x40\x01z\x01y")
        for _ in range(3):
            await sent(client, recorder, BASE + b"\x40\x01a\x01b")
        request = await sent(client, recorder, BASE + b"\xc1")  # the fourth entry
        assert request.headers[b"z"] == b"y"


async def test_entries_that_do_not_fit_are_evicted() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await sent(client, recorder, BASE + b"\x40\x01a\x01b")
        # A table of 4,096 bytes: this entry of 32 + 1 + 4,030 leaves no room for the other of 34.
        await sent(client, recorder, BASE + b"\x40\x01l\x7f\xbf\x1e" + b"v" * 4030)
        await client.send(headers(client.new_stream(), BASE + b"\xbf"))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR


async def test_entry_larger_than_the_table_empties_it() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await sent(client, recorder, BASE + b"\x40\x01a\x01b")
        request = await sent(client, recorder, BASE + b"\x40\x01l\x7f\x81\x1f" + b"v" * 4096)
        assert len(request.headers[b"l"]) == 4096
        await client.send(headers(client.new_stream(), BASE + b"\xbe"))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR


@cases(
    "updates",
    [b"\x20", b"\x3f\xe1\x1f", b"\x20\x3f\xe1\x1f", b"\x3f\x45"],
    ids=["to 0", "to 4,096", "to 0 and 4,096", "to 100"],
)
async def test_size_updates_at_the_start_of_a_block(updates: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await sent(client, recorder, BASE + b"\x40\x01a\x01b")
        assert b"x" in (await sent(client, recorder, updates + BASE + b"\x40\x01x\x01y")).headers


async def test_size_update_to_zero_empties_the_table() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await sent(client, recorder, BASE + b"\x40\x01a\x01b")
        await sent(client, recorder, b"\x20\x3f\xe1\x1f" + BASE)
        await client.send(headers(client.new_stream(), BASE + b"\xbe"))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR


async def test_size_updates_of_a_repeated_block_count_every_time() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        for _ in range(2):
            await sent(client, recorder, b"\x3f\xe1\x1f" + BASE)
            await sent(client, recorder, b"\x20" + BASE)
        await sent(client, recorder, b"\x3f\xe1\x1f" + BASE)
        await sent(client, recorder, BASE + b"\x40\x01a\x01b")
        assert (await sent(client, recorder, BASE + b"\xbe")).headers[b"a"] == b"b"


ERRORS = {
    "index 0": BASE + b"\x80",
    "index beyond both tables": BASE + b"\xbe",
    "name index beyond both tables": BASE + b"\x7f\x00\x01b",
    "huge index": BASE + b"\xff\xff\xff\xff\xff\x0f",
    "endless integer": BASE + b"\xff" + b"\x80" * 40 + b"\x00",
    "unfinished integer": BASE + b"\xff\xff",
    "unfinished name": BASE + b"\x00\x05a",
    "unfinished value": BASE + b"\x00\x01a\x05b",
    "missing value": BASE + b"\x00\x01a",
    "Huffman padding of zeros": BASE + b"\x00\x01a\x81\x18",  # "a" (00011) and 000
    "Huffman padding of a whole byte": BASE + b"\x00\x01a\x82\x1f\xff",
    "EOS in a Huffman string": BASE + b"\x00\x01a\x84\xff\xff\xff\xff",
    "size update above the announced size": b"\x3f\xe2\x1f" + BASE,
    "size update after a field": BASE + b"\x20",
    "size update amid fields": BASE + b"\x20\x00\x01a\x01b",
}


@cases("block", ERRORS.values(), ids=ERRORS)
async def test_block_that_does_not_decode_is_a_connection_error(block: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await client.send(headers(1, block))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR
        assert recorder.requests == []


async def test_trailers_that_do_not_decode_are_a_connection_error() -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(headers(stream, b"\x80"))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR


async def test_malformed_block_that_does_not_decode_is_a_connection_error() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(headers(1, b"\x00\x01A\x01b" + BASE + b"\x80"))
        assert await client.connection_error() is ErrorCode.COMPRESSION_ERROR


ADDS = b"\x40\x01a\x01b"


async def test_refused_stream_changes_the_table() -> None:
    gate = Gate()
    async with served(gate, Limits(streams=1)) as host, raw_client(host) as client:
        await client.request("/wait")
        await client.send(headers(client.new_stream(), client.block(fields=[("x-kept", "in the table")])))
        assert await client.reset_of(3) is ErrorCode.REFUSED_STREAM
        gate.open.set()
        assert (await client.response(1)).status == 200
        # The encoder now refers to the entry that the refused stream added.
        stream = await client.request(fields=[("x-kept", "in the table")])
        assert (await client.response(stream)).status == 200


async def test_malformed_request_changes_the_table() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await client.send(headers(client.new_stream(), b"\x82" + ADDS))  # without path and scheme
        assert await client.reset_of(1) is ErrorCode.PROTOCOL_ERROR
        assert (await sent(client, recorder, BASE + b"\xbe")).headers[b"a"] == b"b"


async def test_trailers_change_the_table() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(headers(stream, client.encode([("x-sum", "1")])))
        assert (await client.response(stream)).status == 200
        stream = await client.request(fields=[("x-sum", "1")])
        assert (await client.response(stream)).status == 200
        assert recorder.requests[-1].headers[b"x-sum"] == b"1"


async def test_trailers_of_a_stream_that_the_server_has_reset_change_the_table() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await client.send(headers(client.new_stream(), b"\x82", end=False))
        assert await client.reset_of(1) is ErrorCode.PROTOCOL_ERROR
        await client.send(headers(1, ADDS))
        assert (await sent(client, recorder, BASE + b"\xbe")).headers[b"a"] == b"b"


async def test_header_list_above_the_limit_changes_the_table() -> None:
    recorder = Recorder()
    async with served(recorder, Limits(http2_head=2000)) as host, raw_client(host) as client:
        stream = await client.request(fields=[("x-kept", "k"), ("x-large", "~" * 3000), ("x-also", "k")])
        assert (await client.response(stream)).status == 431
        stream = await client.request(fields=[("x-kept", "k"), ("x-also", "k")])
        assert (await client.response(stream)).status == 200
        assert recorder.requests[-1].headers[b"x-also"] == b"k"


@pytest.mark.parametrize("size", [0, 100])
async def test_responses_announce_a_smaller_table_of_the_client(size: int) -> None:
    """RFC 7541, section 4.2: the decoder here raises when no size update follows a reduction."""
    async with served() as host, raw_client(host) as client:
        assert (await client.response(await client.request())).status == 200
        await client.send(settings({Setting.HEADER_TABLE_SIZE: size}))
        await client.settings_ack()
        client.decoder.max_allowed_table_size = size
        for _ in range(3):
            assert (await client.response(await client.request())).status == 200


@pytest.mark.parametrize("first", [0, 8192])
async def test_table_size_of_the_opening_settings(first: int) -> None:
    async with served() as host, raw_client(host, values={Setting.HEADER_TABLE_SIZE: first}) as client:
        client.decoder.max_allowed_table_size = first
        for _ in range(2):
            assert (await client.response(await client.request())).status == 200


async def test_block_across_continuations_on_a_reset_stream_changes_the_table() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        block = BASE + ADDS
        await client.send(headers(client.new_stream(), block[:9], done=False), continuation(1, block[9:]))
        await client.send(rst_stream(1))
        assert (await sent(client, recorder, BASE + b"\xbe")).headers[b"a"] == b"b"

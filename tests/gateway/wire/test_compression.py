"""gzip for large responses."""

import gzip

import trio

from rewound.gateway.wire import compression, worker_threads
from rewound.gateway.wire.compression import accepts_gzip, compress
from tests.cases import cases
from tests.settling import settled


@cases(
    "header", [b"gzip", b"GZIP", b"deflate, gzip;q=0.5, br", b"gzip; q=1.0", b"x-gzip", b"*", b"br, *;q=0.1"]
)
def test_accept_encoding_allows_gzip(header: bytes) -> None:
    assert accepts_gzip(header)


@cases(
    "header",
    [None, b"", b"identity", b"br", b"gzip;q=0", b"gzip;q=0.0, *", b"*;q=0", b"gzip;q=x", b"gzipped"],
)
def test_accept_encoding_does_not_allow_gzip(header: bytes | None) -> None:
    assert not accepts_gzip(header)


async def test_compressed_body_decompresses_to_the_same() -> None:
    for size in (0, compression.THRESHOLD + 1, compression._THREAD_THRESHOLD + 1):
        body = b'{"a":1}' * (size // 7 + 1)
        assert gzip.decompress(await compress(body)) == body


async def test_only_large_bodies_are_compressed_in_a_thread() -> None:
    done = []

    async def run(body: bytes) -> None:
        await compress(body)
        done.append(len(body))

    small, large = b"a" * compression.THRESHOLD, b"a" * (compression._THREAD_THRESHOLD + 1)
    limiter = worker_threads.ENCODING
    async with trio.open_nursery() as nursery:
        borrowers = [object() for _ in range(int(limiter.total_tokens))]
        for borrower in borrowers:
            limiter.acquire_on_behalf_of_nowait(borrower)
        nursery.start_soon(run, large)
        nursery.start_soon(run, small)
        await settled()
        assert done == [len(small)]
        for borrower in borrowers:
            limiter.release_on_behalf_of(borrower)
    assert done == [len(small), len(large)]

"""Large documents are read and written in worker threads."""

from collections.abc import Awaitable, Callable

import orjson
import pytest
import trio

from gateway.wire import worker_threads
from gateway.wire.yaml import YamlError, dump, from_json_in_thread, load_in_thread
from tests.gateway.idle import until_idle

SMALL = b'{"a": 1}'
LARGE = orjson.dumps({f"key{number}": "value" for number in range(5000)})
ALIASED = b"a: &x 1\nb: *x\n"


async def test_value_is_the_same_for_every_size() -> None:
    for body in (SMALL, LARGE):
        assert (await load_in_thread(body)).value == orjson.loads(body)
        assert await from_json_in_thread(body) == dump(orjson.loads(body))


async def test_error_in_a_worker_thread_reaches_the_caller() -> None:
    for body in (b"a: [", b"a: [" + b"x, " * 50_000):
        with pytest.raises(YamlError):
            await load_in_thread(body)


@pytest.mark.parametrize(
    ("run", "limiter", "waiting"),
    [
        (load_in_thread, worker_threads.DECODING, [LARGE, ALIASED]),
        (from_json_in_thread, worker_threads.ENCODING, [LARGE]),
    ],
)
async def test_only_large_documents_use_a_thread(
    run: Callable[[bytes], Awaitable[object]], limiter: trio.CapacityLimiter, waiting: list[bytes]
) -> None:
    done: list[bytes] = []

    async def go(body: bytes) -> None:
        await run(body)
        done.append(body)

    async with trio.open_nursery() as nursery:
        borrowers = [object() for _ in range(int(limiter.total_tokens))]
        for borrower in borrowers:
            limiter.acquire_on_behalf_of_nowait(borrower)
        for body in (*waiting, SMALL):
            nursery.start_soon(go, body)
        await until_idle()
        assert done == [SMALL]
        for borrower in borrowers:
            limiter.release_on_behalf_of(borrower)
    assert len(done) == 1 + len(waiting)

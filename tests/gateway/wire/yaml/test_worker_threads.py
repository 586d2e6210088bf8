"""Large documents are written in worker threads."""

import orjson
import trio

from rewound.gateway.wire import worker_threads
from rewound.gateway.wire.yaml import dump, from_json_in_thread
from tests.settling import settled

SMALL = b'{"a": 1}'
LARGE = orjson.dumps({f"key{number}": "value" for number in range(5000)})


async def test_document_is_the_same_for_every_size() -> None:
    for body in (SMALL, LARGE):
        assert await from_json_in_thread(body) == dump(orjson.loads(body))


async def test_only_large_documents_use_a_thread() -> None:
    limiter, done = worker_threads.ENCODING, list[bytes]()

    async def go(body: bytes) -> None:
        await from_json_in_thread(body)
        done.append(body)

    async with trio.open_nursery() as nursery:
        borrowers = [object() for _ in range(int(limiter.total_tokens))]
        for borrower in borrowers:
            limiter.acquire_on_behalf_of_nowait(borrower)
        for body in (LARGE, SMALL):
            nursery.start_soon(go, body)
        await settled()
        assert done == [SMALL]
        for borrower in borrowers:
            limiter.release_on_behalf_of(borrower)
    assert done == [SMALL, LARGE]

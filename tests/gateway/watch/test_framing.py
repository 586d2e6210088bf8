"""Events whose objects are sent as stored are encoded and framed in one step, with the same bytes as in two."""

from __future__ import annotations

from rewound.gateway.watch.framing import (
    StoredObjects,
    as_chunk,
    as_text_frame,
    document,
    framed_by,
    unframed,
)
from tests.cases import cases


@cases("size", [0, 1, 200, 70_000])
@cases("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_one_step_gives_the_bytes_of_two(kind: str, size: int) -> None:
    body = b'{"metadata":{"name":"%b"}}' % (b"x" * size)
    prefix = b'{"kind":"ConfigMap","apiVersion":"v1",'
    encode = StoredObjects(prefix)
    payload = document(kind, prefix + body[1:])
    for framing in (as_chunk, unframed, as_text_frame):
        assert framed_by(framing, encode)(kind, body) == framing(payload)
        assert framed_by(framing, lambda kind, body: encode(kind, body))(kind, body) == framing(payload)

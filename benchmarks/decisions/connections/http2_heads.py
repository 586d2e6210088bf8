"""docs/decisions/0017-http2-heads.md: the cost of turning one HTTP/2 header block into the head of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hpack

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from rewound.gateway.connections.http2.request_heads import RequestHeads
from rewound.gateway.connections.limits import Limits
from rewound.http2.hpack import Field, checked

PATH = "/api/v1/namespaces/default/configmaps"
# As many blocks as it takes to fill the dynamic table several times, so that a client has to repeat its headers.
BLOCKS = 200


def fields(path: str) -> list[tuple[str, str]]:
    """What client-go sends. Like Go's encoder, hpack's one puts every field into the dynamic table."""
    return [
        (":authority", "127.0.0.1:6443"),
        (":method", "GET"),
        (":path", path),
        (":scheme", "https"),
        ("user-agent", "kubectl/v1.25.0 (linux/amd64) kubernetes/a866cbe"),
        ("accept", "application/json"),
        ("authorization", "Bearer 0123456789abcdef0123456789abcdef"),
        ("accept-encoding", "gzip"),
    ]


def encoded(paths: Sequence[str]) -> list[bytes]:
    """The header blocks that one client sends for these paths."""
    encoder = hpack.Encoder()
    return [encoder.encode(fields(path)) for path in paths]


class ByHpack:
    """The decoder of the hpack package, in the place of ours."""

    def __init__(self) -> None:
        self.generation = 0
        self._decoder = hpack.Decoder(Limits().head)
        self._newest: object = None

    def decode(self, block: bytes) -> list[Field] | None:
        decoder = self._decoder
        pairs = decoder.decode(block, raw=True)
        entries = decoder.header_table.dynamic_entries
        if entries and entries[0] is not self._newest:
            self._newest = entries[0]
            self.generation += 1
        return [checked(name, value) for name, value in pairs]


def connection(*, ours: bool) -> RequestHeads:
    heads = RequestHeads(Limits())
    if not ours:
        heads._decoder = ByHpack()  # type: ignore[assignment]
    return heads


def settled(*, ours: bool, caches: bool) -> Callable[[], object]:
    """The same request repeatedly."""
    heads = connection(ours=ours)
    first, block, _ = encoded([f"{PATH}/a?pretty=false"] * 3)
    heads.request(first)
    read = heads.request if caches else heads._decoded
    return lambda: read(block)


def new_paths(*, ours: bool, caches: bool) -> Callable[[], object]:
    """A whole connection, whose requests all have different paths."""
    blocks = encoded([f"{PATH}/object-{number}" for number in range(BLOCKS)])

    def read_all() -> None:
        heads = connection(ours=ours)
        read = heads.request if caches else heads._decoded
        for block in blocks:
            read(block)

    return read_all


def main(effort: Effort) -> None:
    for title, client, per in (
        ("the same request again", settled, 1),
        ("a new path in every request", new_paths, BLOCKS),
    ):
        compare(
            title,
            {
                "our decoder behind the cache of blocks": client(ours=True, caches=True),
                "our decoder": client(ours=True, caches=False),
                "hpack.Decoder behind the cache of blocks": client(ours=False, caches=True),
                "hpack.Decoder": client(ours=False, caches=False),
            },
            effort,
            per=per,
        )


if __name__ == "__main__":
    main(effort_of_command_line())

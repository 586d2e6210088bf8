"""Compressed bodies: members that follow each other are one body, as in Go, and nothing is kept beyond a bound."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Iterable

import pytest

from rewound.client.content_coding import Gunzipped, WrongCoding, decoded


class Parts(AsyncIterator[bytes]):
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self.taken = 0

    async def __anext__(self) -> bytes:
        for part in self._parts:
            self.taken += 1
            return part
        raise StopAsyncIteration


class Headers:
    def __init__(self, *codings: str) -> None:
        self._codings = codings

    def multi_items(self) -> list[tuple[str, str]]:
        return [("Content-Encoding", one) for one in self._codings]


async def whole(parts: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in parts])


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
async def test_members_that_follow_each_other_are_one_body(size: int) -> None:
    data = b"".join(gzip.compress(one) for one in (b"first ", b"", b"second ", b"third"))
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    assert await whole(Gunzipped(Parts(parts))) == b"first second third"


@pytest.mark.parametrize("after", [b"garbage", b"\0" * 8, b"\x1f\x8b\x08\x00"])
async def test_what_follows_the_end_and_is_no_member_is_an_error(after: bytes) -> None:
    with pytest.raises(WrongCoding, match="it is not gzip"):
        await whole(Gunzipped(Parts([gzip.compress(b"body"), after])))


async def test_endless_rest_is_refused_at_its_first_part() -> None:
    """It was kept, without a bound, for as long as the server sent it."""
    parts = Parts([gzip.compress(b"body"), *[b"x" * 65536] * 1000])
    with pytest.raises(WrongCoding):
        await whole(Gunzipped(parts))
    assert parts.taken == 2


async def test_body_that_is_cut_short_is_an_error() -> None:
    with pytest.raises(WrongCoding, match="cut short"):
        await whole(Gunzipped(Parts([gzip.compress(b"body" * 100)[:-9]])))
    assert await whole(Gunzipped(Parts([]))) == b""


async def test_parts_are_small_however_well_they_were_compressed() -> None:
    sizes = [len(part) async for part in Gunzipped(Parts([gzip.compress(bytes(9 << 20))]))]
    assert sum(sizes) == 9 << 20 and max(sizes) == 1 << 20


async def test_codings_that_nobody_asked_for_are_errors() -> None:
    assert await whole(decoded(Headers("identity"), Parts([b"a"]))) == b"a"
    assert await whole(decoded(Headers(" GZIP "), Parts([gzip.compress(b"a")]))) == b"a"
    for codings in (("br",), ("gzip", "gzip"), ("deflate",)):
        with pytest.raises(WrongCoding, match="gzip was asked for"):
            decoded(Headers(*codings), Parts([]))

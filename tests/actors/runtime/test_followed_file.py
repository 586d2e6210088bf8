"""A followed file is passed on once for every change, and keeps its contents while it is missing or being written."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from rewound.actors.runtime.followed_file import CHECK_SECONDS, follow_file

Log = list[bytes | str]


@asynccontextmanager
async def following(path: Path, known: bytes) -> AsyncIterator[Log]:
    log: Log = []

    async def changed(contents: bytes) -> None:
        log.append(contents)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow_file, path, known, changed, lambda error: log.append(type(error).__name__))
        await settle()
        yield log
        nursery.cancel_scope.cancel()


async def settle() -> None:
    await trio.sleep(3.5 * CHECK_SECONDS)


def replace(path: Path, contents: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(contents)
    os.replace(other, path)


async def test_every_change_is_passed_on_once(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"1")
    async with following(path, b"1") as log:
        assert log == []
        path.write_bytes(b"22")
        await settle()
        replace(path, b"3")
        await settle()
        os.utime(path, ns=(1, 1))  # touched
        await settle()
        assert log == [b"22", b"3"]


async def test_a_change_before_the_first_look_counts(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"2")
    async with following(path, b"1") as log:
        assert log == [b"2"]


async def test_a_missing_file_is_reported_once_and_its_return_unchanged_is_no_change(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"1")
    async with following(path, b"1") as log:
        path.unlink()
        await settle()
        path.write_bytes(b"1")
        await settle()
        assert log == ["FileNotFoundError"]
        replace(path, b"2")
        await settle()
        assert log == ["FileNotFoundError", b"2"]


async def test_a_file_is_not_read_while_it_is_being_written(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"1")
    async with following(path, b"1") as log:
        for length in range(2, 9):
            path.write_bytes(b"x" * length)
            await trio.sleep(CHECK_SECONDS)
        assert log == []
        await settle()
        assert log == [b"x" * 8]

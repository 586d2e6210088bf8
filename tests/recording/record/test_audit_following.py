"""The recorder follows the audit log like `tail -F`: starting at a time, and through rotations."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.recording.record.audit_following import AuditLog, first_line
from rewound.recording.record.requests import micros


def line(second: int, size: int = 0) -> bytes:
    time = f"2026-11-17T10:{second // 60:02d}:{second % 60:02d}Z"
    event = {"apiVersion": "audit.k8s.io/v1", "stageTimestamp": time, "number": second, "more": "x" * size}
    return orjson.dumps(event) + b"\n"


def test_begins_at_the_first_line_that_is_not_older(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"".join(line(second, second * 7 % 500) for second in range(600)))
    for second in (0, 1, 299, 598, 599):
        since = micros(f"2026-11-17T10:{second // 60:02d}:{second % 60:02d}Z")
        with path.open("rb", buffering=0) as stream:
            stream.seek(first_line(stream, since))
            found = orjson.loads(stream.read().split(b"\n")[0])["number"]
        assert second - 1 <= found <= second


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    path.write_bytes(line(1) + line(2))
    return path


async def test_follows_through_rotations(log: Path, autojump_clock: MockClock) -> None:
    found: list[int] = []

    def append(data: bytes) -> None:
        with log.open("ab") as stream:
            stream.write(data)

    audit_log = AuditLog(str(log), 1, lambda one: found.append(orjson.loads(one)["number"]))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(audit_log.run)
        await trio.sleep(1)
        append(line(3)[:20])  # half of a line
        await trio.sleep(1)
        assert found == [1, 2]
        append(line(3)[20:])
        os.rename(log, log.with_suffix(".1"))  # a server that still writes to the old file for a moment
        with log.with_suffix(".1").open("ab") as stream:
            stream.write(line(4))
        await trio.sleep(1)
        append(line(5))
        await trio.sleep(1)
        assert found == [1, 2, 3, 4, 5]
        log.write_bytes(line(6)[:30])  # truncated by copytruncate
        await trio.sleep(1)
        append(line(6)[30:])
        await trio.sleep(1)
        append(line(7))
        nursery.cancel_scope.cancel()
    audit_log.read_rest()
    assert found == [1, 2, 3, 4, 5, 6, 7]


async def test_waits_for_a_file(tmp_path: Path, autojump_clock: MockClock) -> None:
    found: list[bytes] = []
    path = tmp_path / "later.log"
    audit_log = AuditLog(str(path), 1, found.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(audit_log.run)
        await trio.sleep(5)
        path.write_bytes(line(1))
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    audit_log.read_rest()
    assert len(found) == 1

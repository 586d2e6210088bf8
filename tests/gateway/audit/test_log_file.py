"""The file of the audit log: rotation, old files, and what happens when it cannot be written."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
from pathlib import Path

import pytest

from rewound.gateway.audit.backends.rotated_file import Compression, NotWritten, RotatedFile

MOMENT = 1_763_200_000.0  # 2025-11-15T09:46:40Z


class Time:
    def __init__(self) -> None:
        self.now = MOMENT

    def __call__(self) -> float:
        return self.now


def opened(folder: Path, time: Time | None = None, **limits: int) -> RotatedFile:
    return RotatedFile(folder / "audit.log", now=time or Time(), **{"max_bytes": 100, **limits})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_file_is_for_its_owner_alone_and_appended_to(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for line in (b"a\n", b"b\n"):
        file = opened(tmp_path / "logs")
        file.write(line)
        file.close()
    path = tmp_path / "logs" / "audit.log"
    assert path.read_bytes() == b"a\nb\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_full_file_is_renamed_by_the_time_between_two_lines(tmp_path: Path) -> None:
    time = Time()
    file = opened(tmp_path, time)
    file.write(b"a" * 59 + b"\n" + b"b" * 39 + b"\n")
    time.now += 0.25
    file.write(b"c" * 59 + b"\n" + b"d" * 59 + b"\n")
    assert contents(tmp_path) == {
        "audit-2025-11-15T09-46-40.250.log": b"a" * 59 + b"\n" + b"b" * 39 + b"\n",
        "audit-2025-11-15T09-46-40.251.log": b"c" * 59 + b"\n",
        "audit.log": b"d" * 59 + b"\n",
    }


def test_only_a_regular_file_that_is_not_about_to_be_rotated_is_quick(tmp_path: Path) -> None:
    file = opened(tmp_path, max_bytes=1_000_000)
    assert file.is_quick(1_000)
    file.write(b"a" * 990_000 + b"\n")
    assert not file.is_quick(20_000)
    assert not RotatedFile(Path("/dev/null"), max_bytes=1_000_000).is_quick(1)


def test_file_that_is_full_at_start_is_rotated_by_the_next_line(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b"x" * 99 + b"\n")
    opened(tmp_path).write(b"y\n")
    assert (tmp_path / "audit.log").read_bytes() == b"y\n"
    assert len(contents(tmp_path)) == 2


def test_line_longer_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.write(b"a\n" + b"b" * 200 + b"\n" + b"c\n")
    assert sorted(map(len, contents(tmp_path).values())) == [2, 2, 201]


def test_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    time = Time()
    file = opened(tmp_path, time, max_backups=2)
    for letter in (b"a", b"b", b"c", b"d"):
        file.write(letter * 99 + b"\n")
        time.now += 1
    assert [body[:1] for body in contents(tmp_path).values()] == [b"b", b"c", b"d"]


def test_files_older_than_the_limit_are_deleted(tmp_path: Path) -> None:
    others = {"audit-notes.log", "audit-2025-13-45T00-00-00.000.log", "other-2020-01-01T00-00-00.000.log"}
    for name in (*others, "audit-2025-11-12T09-46-39.000.log", "audit-2025-11-12T09-46-41.000.log"):
        (tmp_path / name).write_bytes(b"")
    opened(tmp_path, max_age_days=3).close()
    assert set(contents(tmp_path)) == {*others, "audit-2025-11-12T09-46-41.000.log", "audit.log"}


def test_rotated_files_are_compressed_and_counted_once(tmp_path: Path) -> None:
    (tmp_path / "audit-2025-11-14T00-00-00.000.log").write_bytes(b"of an earlier start\n")
    (tmp_path / "audit-2025-11-14T00-00-00.000.log.gz").write_bytes(b"half of it")
    time, compression = Time(), Compression()
    file = RotatedFile(
        tmp_path / "audit.log", max_bytes=100, max_backups=2, compression=compression, now=time
    )
    compression.wait()
    for letter in (b"a", b"b"):
        file.write(letter * 99 + b"\n")
        compression.wait()
        time.now += 1
    unpacked = {name: gzip.decompress(body) for name, body in contents(tmp_path).items() if ".gz" in name}
    assert unpacked == {
        "audit-2025-11-14T00-00-00.000.log.gz": b"of an earlier start\n",
        "audit-2025-11-15T09-46-41.000.log.gz": b"a" * 99 + b"\n",
    }
    file.write(b"c" * 99 + b"\n")
    compression.wait()
    assert list(contents(tmp_path)) == [
        "audit-2025-11-15T09-46-41.000.log.gz",
        "audit-2025-11-15T09-46-42.000.log.gz",
        "audit.log",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_file_that_cannot_be_compressed_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit-2025-11-14T00-00-00.000.log.gz.part").mkdir()
    (tmp_path / "audit-2025-11-14T00-00-00.000.log").write_bytes(b"a\n")
    compression = Compression()
    RotatedFile(tmp_path / "audit.log", max_bytes=100, compression=compression).close()
    compression.wait()
    assert (tmp_path / "audit-2025-11-14T00-00-00.000.log").read_bytes() == b"a\n"
    assert "Is a directory" in caplog.text


def test_deleted_folder_and_moved_file_are_created_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    file = opened(folder)
    file.write(b"a\n")
    shutil.rmtree(folder)
    file.write(b"b\n")
    os.rename(folder / "audit.log", folder / "moved")
    file.write(b"c\n")
    assert contents(folder) == {"audit.log": b"c\n", "moved": b"b\n"}


def test_full_disk_is_reported_and_writing_continues(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.symlink_to("/dev/full")
    file = RotatedFile(path, max_bytes=100)
    with pytest.raises(NotWritten, match=r"cannot write to .*/audit\.log: No space left on device") as failed:
        file.write(b"a\n" + b"b\n")
    assert failed.value.written == 0
    path.unlink()
    file.write(b"c\n")
    assert path.read_bytes() == b"c\n"

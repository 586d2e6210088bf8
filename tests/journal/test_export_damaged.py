"""A damaged or truncated export is refused with its position, and the import leaves nothing."""

from __future__ import annotations

import gzip
import io
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.errors import DamagedFile, JournalError
from rewound.journal.transfer import export, restore
from tests.journal.model import Model, ram


@pytest.fixture
def file(journal: Journal, model: Model) -> bytes:
    journal.register_type("configmaps")
    journal.append([model.put("a"), model.put("b"), model.remove("a"), model.put("a")])
    stream = io.BytesIO()
    with journal.read() as view:
        export(view, stream)
    return stream.getvalue()


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=ram()) as name:
        yield Path(name)


def refusal(damaged: bytes, folder: Path) -> JournalError:
    place = folder / "deep" / "data" / "journal"
    with pytest.raises(JournalError) as refused:
        restore(io.BytesIO(damaged), place)
    assert not (folder / "deep").exists(), "something was left"
    return refused.value


positions = pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])


@positions
def test_flipped_byte_is_found(file: bytes, folder: Path, step: int) -> None:
    for position in range(0, len(file), step):
        damaged = bytearray(file)
        damaged[position] ^= 0x40
        refusal(bytes(damaged), folder)


@positions
def test_truncation_is_found_at_its_position(file: bytes, folder: Path, step: int) -> None:
    for length in range(0, len(file), step):
        refused = refusal(file[:length], folder)
        assert isinstance(refused, DamagedFile)
        assert refused.position == length
        assert str(refused).startswith(f"the file is damaged at byte {length} (")


def test_missing_repeated_or_moved_record_is_found(file: bytes, folder: Path) -> None:
    starts = [16]
    while starts[-1] < len(file):
        starts.append(starts[-1] + 8 + int.from_bytes(file[starts[-1] : starts[-1] + 4], "big"))
    frames = [file[begin:end] for begin, end in itertools.pairwise(starts)]
    header, first, second, *rest = frames
    for wrong in (
        [header, second, *rest],
        [header, first, first, second, *rest],
        [header, second, first, *rest],
    ):
        refused = refusal(file[:16] + b"".join(wrong), folder)
        assert "does not match its checksum" in str(refused)


def test_bytes_after_the_end_are_refused(file: bytes, folder: Path) -> None:
    refused = refusal(file + b"x", folder)
    assert str(refused).startswith(f"the file is damaged at byte {len(file)} (it continues after its end)")


def test_other_files_are_refused(folder: Path) -> None:
    assert "it does not begin like an export" in str(refusal(b"", folder))
    assert "it does not begin like an export" in str(refusal(b"SQLite format 3\0" * 10, folder))


def test_truncated_gzip_is_refused(file: bytes, folder: Path) -> None:
    packed = gzip.compress(file)
    wrong_checksum = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]
    for damaged in (packed[: len(packed) // 2], packed[:-4], wrong_checksum):
        with pytest.raises(DamagedFile), gzip.open(io.BytesIO(damaged)) as stream:
            restore(stream, folder / "x" / "journal")  # type: ignore[arg-type]
        assert not (folder / "x").exists()


def test_existing_empty_folder_stays(file: bytes, folder: Path) -> None:
    data = folder / "data"
    (data / "pki").mkdir(parents=True)
    with pytest.raises(DamagedFile):
        restore(io.BytesIO(file[:-1]), data / "journal")
    assert [path.name for path in data.iterdir()] == ["pki"]

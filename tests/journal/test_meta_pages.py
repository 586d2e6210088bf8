"""No flipped bit in LMDB's meta pages shows an older or an empty cluster: the folder opens complete, or is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.errors import CannotOpen, DamagedMetaPage, NotAJournal
from rewound.journal.files import identity, meta_pages
from tests.journal.model import Model

OBJECTS = 360
PAGE = 4096


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, model = tmp_path_factory.mktemp("flips") / "journal", Model()
    journal = Journal.open(path)
    journal.register_type("configmaps")
    for start in range(0, OBJECTS - 1, 10):
        journal.append([model.put(f"n{i:03d}") for i in range(start, min(start + 10, OBJECTS - 1))])
    journal.append([model.put("the-newest")])
    journal.close()
    return path


def outcome(path: Path) -> str:
    """What a reader gets: everything, a refusal, or a result that must never happen."""
    try:
        journal = Journal.open(path, readonly=True)
    except CannotOpen as refused:
        return "refused" if "restore" in str(refused) else f"unclear: {refused}"
    with journal.read() as view:
        whole = view.head == OBJECTS and view.count(1, None) == OBJECTS
    journal.close()
    return "whole" if whole else "WRONG"


def flip(handle: int, position: int, bit: int) -> None:
    byte = os.pread(handle, 1, position)[0]
    os.pwrite(handle, bytes([byte ^ (1 << bit)]), position)


# One bit of each byte, a different one in the next byte; the long version flips all.
bits = pytest.mark.parametrize(
    "number", [pytest.param(1, id="one bit"), pytest.param(8, id="all bits", marks=pytest.mark.slow)]
)


def outcomes_of_flips(folder: Path, page: int, number: int) -> set[str]:
    outcomes = set()
    handle = os.open(folder / "data.mdb", os.O_RDWR)
    for position in range(page * PAGE, page * PAGE + meta_pages.SIZE):
        for bit in range(8) if number == 8 else (position % 8,):
            flip(handle, position, bit)
            outcomes.add(outcome(folder))
            flip(handle, position, bit)
    os.close(handle)
    assert outcome(folder) == "whole"
    return outcomes


def newest_page(folder: Path) -> int:
    with (folder / "data.mdb").open("rb") as file:
        return meta_pages.read(file.fileno()).newest.number


@bits
def test_flipped_bits_of_the_newest_meta_page_are_refused(folder: Path, number: int) -> None:
    assert outcomes_of_flips(folder, newest_page(folder), number) == {"refused"}


@bits
def test_flipped_bits_of_the_older_meta_page_are_refused_or_harmless(folder: Path, number: int) -> None:
    assert outcomes_of_flips(folder, 1 - newest_page(folder), number) == {"refused", "whole"}


def test_older_meta_page_with_a_newer_transaction_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    handle = os.open(copy / "data.mdb", os.O_RDWR)
    newest = meta_pages.read(handle).newest.transaction
    at = ((newest + 1) & 1) * PAGE + meta_pages.SIZE - 8
    os.pwrite(handle, (newest + 1).to_bytes(8, "little"), at)
    assert meta_pages.read(handle).newest.transaction == newest + 1  # valid for LMDB
    os.close(handle)
    with pytest.raises(DamagedMetaPage, match=f"its meta pages are not what transaction {newest} left"):
        Journal.open(copy, readonly=True)


@pytest.mark.parametrize("position", [meta_pages.SIZE, 1000, PAGE - 1, PAGE + meta_pages.SIZE, 2 * PAGE - 1])
def test_bytes_that_lmdb_does_not_use_do_not_matter(folder: Path, position: int) -> None:
    handle = os.open(folder / "data.mdb", os.O_RDWR)
    flip(handle, position, 3)
    assert outcome(folder) == "whole"
    flip(handle, position, 3)
    os.close(handle)


def test_flipped_bits_of_a_folder_without_identity_never_empty_it(folder: Path, tmp_path: Path) -> None:
    """A folder of an earlier release has only its meta pages; one commit may be lost, never the cluster."""
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    (old / identity.FILE).unlink()
    handle = os.open(old / "data.mdb", os.O_RDWR)
    with pytest.raises(CannotOpen, match="the file identity is missing"):
        Journal.open(old, readonly=True)
    for position in (*range(128, 136), *range(PAGE + 128, PAGE + 136)):  # the roots of the main database
        for bit in range(8):
            flip(handle, position, bit)
            with pytest.raises(CannotOpen):
                Journal.open(old, readonly=True)
            flip(handle, position, bit)
    os.close(handle)


def test_older_page_that_looks_newest_is_refused(folder: Path, tmp_path: Path) -> None:
    """The newest page loses its transaction in a way that still follows the other page."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    handle = os.open(copy / "data.mdb", os.O_RDWR)
    pages = meta_pages.read(handle)
    newest = pages.newest.transaction
    at = (newest & 1) * PAGE + meta_pages.SIZE - 8
    os.pwrite(handle, (newest - 2).to_bytes(8, "little"), at)
    assert meta_pages.read(handle).newest.transaction == newest - 1  # valid for LMDB
    os.close(handle)
    with pytest.raises(
        CannotOpen, match=f"the identity file has transaction {newest}, data.mdb has {newest - 1}"
    ):
        Journal.open(copy, readonly=True)


@pytest.mark.parametrize(
    ("position", "value", "why"),
    [
        (10, b"\0\0", "its header is not that of a meta page"),
        (16, b"\0\0\0\0", "its header is not that of a meta page"),
        (128, (9999).to_bytes(8, "little"), "a root is page 9999"),
        (136, (1 << 40).to_bytes(8, "little"), "is outside of the map"),
        (94, b"\x40\0", "levels and the root"),
    ],
)
def test_refusal_names_the_page_and_the_reason(
    folder: Path, tmp_path: Path, position: int, value: bytes, why: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    page = newest_page(folder)
    with (copy / "data.mdb").open("r+b") as file:
        file.seek(page * PAGE + position)
        file.write(value)
    expected = f"meta page {page} is damaged: .*{why}.*rewound journal recover"
    with pytest.raises(DamagedMetaPage, match=expected):
        Journal.open(copy)


def test_cut_meta_pages_are_refused(folder: Path, tmp_path: Path) -> None:
    content = (folder / "data.mdb").read_bytes()
    for size in (1, 151, 152, PAGE, 2 * PAGE - 1):
        (tmp_path / "data.mdb").write_bytes(content[:size])
        with pytest.raises(NotAJournal):
            Journal.open(tmp_path, readonly=True)

"""Two leaf pages were exchanged in the file of an open journal: no read returns or omits rows of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.errors import Damaged
from rewound.journal.files.data_file import DATA
from rewound.journal.files.pages import Leaf, PageFile, Walk, database_of
from rewound.journal.files.structure import MAIN
from rewound.journal.view import View
from tests.journal.model import Model

NAMES = [f"n{i:02d}" for i in range(60)]
Read = Callable[[View], list[str]]


def in_pages(size: int) -> Read:
    def read(view: View) -> list[str]:
        names: list[str] = []
        after: tuple[str, str] | None = None
        while True:
            page = view.page(1, "default", after=after, limit=size)
            names += [names_in(body) for body in page.bodies]
            if not page.more:
                return names
            after = page.last

    return read


READS: dict[str, Read] = {
    "list": lambda view: [names_in(body) for body in view.page(1, "default").bodies],
    "list of the type": lambda view: [names_in(body) for body in view.page(1).bodies],
    "rows": lambda view: [name for _, name, _ in view.rows(1)],
    "gets": lambda view: [name for name in NAMES if view.get(1, "default", name) is not None],
    "pages of 1": in_pages(1),
    "pages of 7": in_pages(7),
    "pages of 50": in_pages(50),
}


def names_in(body: bytes) -> str:
    return next(name for name in NAMES if name.encode() in body)


@pytest.fixture
def filled(tmp_path: Path, model: Model) -> Iterator[Journal]:
    journal = Journal.open(tmp_path)
    for name in random.Random(1).sample(NAMES, len(NAMES)):
        journal.append([model.put(name, filler=f"{name} " + "x" * 800)])
    yield journal
    journal.close()


def leaves(folder: Path, database: str) -> tuple[list[Leaf], int]:
    with PageFile(folder / DATA) as file:
        meta = file.newest_meta()
        (main,) = Walk(file, MAIN, meta.main, meta.last_page).leaves()
        found = next(database_of(node) for node in main.nodes if node.key == database.encode())
        return list(Walk(file, database, found, meta.last_page).leaves()), file.page_size


def exchange(folder: Path, one: int, other: int, size: int) -> None:
    with (folder / DATA).open("r+b") as file:
        pages = []
        for number in (one, other):
            file.seek(number * size)
            pages.append(file.read(size))
        for number, page in zip((other, one), pages, strict=True):
            file.seek(number * size)
            file.write(page)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("name", READS)
def test_no_read_is_wrong(filled: Journal, tmp_path: Path, name: str, cached: bool) -> None:
    """A read may still be right: rows in the cache were read before."""
    read = READS[name]
    if cached:
        with filled.read() as view:
            assert read(view) == read(view) == NAMES
    found, size = leaves(tmp_path, "state")
    assert len(found) > 8
    refused = 0
    for one, other in [*combinations(range(len(found)), 2)][::5]:
        pages = found[one].number, found[other].number
        exchange(tmp_path, *pages, size)
        try:
            with filled.read() as view:
                assert read(view) == NAMES
        except Damaged:
            refused += 1
            assert filled.environment.stopped
        exchange(tmp_path, *pages, size)
    assert refused > 5 or (cached and name.startswith(("list", "rows")))


def test_a_missing_count_of_what_has_rows_is_damage(filled: Journal) -> None:
    counts = filled.environment.databases.counts

    def remove(txn: object) -> None:
        for key, _ in [*txn.cursor(counts)]:  # type: ignore[attr-defined]
            txn.delete(bytes(key), db=counts)  # type: ignore[attr-defined]

    filled.environment.write(remove)
    with filled.read() as view, pytest.raises(Damaged, match=r"count of .* is missing"):
        view.count(1, "default")

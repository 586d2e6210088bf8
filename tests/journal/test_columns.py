"""Columns of facts: what they read, when lists scan instead, and what bounds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rewound.journal import Journal, columns, keys, records, retention
from rewound.journal.columns import Columns
from rewound.journal.errors import Damaged
from rewound.journal.recording import Recording
from rewound.journal.search import Search, Term
from tests.journal.model import Model

COUNT = 300


def last_digit(facts: bytes) -> bytes:
    return facts[-1:]


def seven(facts: bytes, _: bytes) -> bool:
    return facts[-1:] == b"7"


SEVEN = Search(seven, (Term(last_digit, b"7"),))
WITHOUT_TERM = Search(seven)


@pytest.fixture
def filled(journal: Journal, model: Model) -> Journal:
    journal.register_types(["things", "others"])
    journal.append([with_digit(model, number) for number in range(COUNT)])
    return journal


def with_digit(model: Model, number: int, digit: int | None = None, **more: Any) -> Any:
    """An event of an object whose facts end in the last digit of its number, or in another one."""
    event = model.put(f"n{number:03d}", **more)
    model.events[-1] = event._replace(facts=b"%0100d" % (number if digit is None else digit))
    return model.events[-1]


def never() -> bool:
    return False


def names(journal: Journal, search: Search = SEVEN, namespace: str | None = None) -> list[str] | None:
    """What a list reads with a column; None: the list would scan."""
    with journal.read() as view:
        ready, find = journal.columns.step(view, 1, namespace, search, never)
        assert ready
        if find is None:
            return None
        page = view.page(1, namespace, match=search.match, find=find)
    return [body.split(b'"')[5].decode() for body in page.bodies]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys of all rows whose facts a column reads."""
    found: list[bytes] = []

    def row_facts(key: bytes, value: memoryview) -> bytes:
        found.append(key)
        return records.row_facts(key, value)

    monkeypatch.setattr(columns, "row_facts", row_facts)
    return found


@pytest.mark.parametrize("search", [SEVEN, WITHOUT_TERM])
def test_list_after_the_first_reads_only_what_changed(
    filled: Journal, model: Model, read: list[bytes], search: Search
) -> None:
    expected = [f"n{number:03d}" for number in range(7, COUNT, 10)]
    assert names(filled, search) == expected
    assert len(read) == COUNT
    read.clear()
    assert names(filled, search) == expected
    assert read == []
    filled.append([with_digit(model, 7, 8), with_digit(model, 8, 7), model.remove("n017")])
    assert names(filled, search) == ["n008", *expected[2:]]
    assert sorted(read) == [keys.of_object(1, "default", name) for name in ("n007", "n008")]


@pytest.mark.parametrize("search", [SEVEN, WITHOUT_TERM])
def test_object_that_was_removed_and_created_again_is_listed_once(
    filled: Journal, model: Model, search: Search
) -> None:
    expected = names(filled, search)
    for name in (["n007"], ["n017", "n027", *(f"n{number:03d}" for number in range(100, 130))]):
        filled.append([model.remove(one) for one in name])
        assert names(filled, search) == [one for one in expected or () if one not in name]
        filled.append([with_digit(model, int(one[1:])) for one in name])
        assert names(filled, search) == expected


def test_only_rows_that_match_are_compared_with_their_bodies(filled: Journal) -> None:
    bodies: list[bytes] = []

    def match(facts: bytes, body: bytes) -> bool:
        if body:
            bodies.append(body)
        return facts[-1:] == b"7"

    found = names(filled, Search(match, SEVEN.terms))
    assert found is not None
    assert len(found) == len(bodies) == COUNT // 10


def test_few_objects_and_small_namespaces_are_scanned(filled: Journal, model: Model) -> None:
    filled.append([with_digit(model, number, namespace="small") for number in range(columns.LEAST // 4)])
    filled.append([with_digit(model, number, type_id=2) for number in range(columns.LEAST - 1)])
    with filled.read() as view:
        assert filled.columns.step(view, 2, None, SEVEN, never) == (True, None)
    assert names(filled, namespace="small") is None
    assert filled.columns.statistics()["columns"] == 0
    assert names(filled, namespace="default") is not None
    assert names(filled, namespace="small") is not None  # there is one now


def test_transaction_before_the_column_scans(filled: Journal, model: Model) -> None:
    with filled.read() as older:
        filled.append([with_digit(model, 1, 7)])
        assert names(filled) is not None
        assert filled.columns.step(older, 1, None, SEVEN, never) == (True, None)


def test_column_starts_again_where_retention_passed_it(
    filled: Journal, model: Model, read: list[bytes]
) -> None:
    names(filled)
    filled.append([with_digit(model, 1, 7), model.remove("n007"), with_digit(model, 2)])
    while not retention.advance(filled, model.head).done:
        pass
    read.clear()
    found = names(filled)
    assert found is not None and found[:2] == ["n001", "n017"]
    assert len(read) == COUNT - 1


def test_column_starts_again_when_following_costs_more(
    filled: Journal, model: Model, read: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    names(filled)
    for _ in range(5):
        filled.append([with_digit(model, 1) for _ in range(500)])
    monkeypatch.setattr(columns, "STEP_ROWS", 100)
    with filled.read() as view:
        for _ in range(40):
            ready, find = filled.columns.step(view, 1, None, SEVEN, lambda: True)
            if ready:
                break
    assert find is not None
    assert len(read) > 2 * COUNT


def test_columns_are_bounded(filled: Journal, model: Model) -> None:
    filled.append([with_digit(model, number, type_id=2) for number in range(COUNT)])
    names(filled)
    size = filled.columns.statistics()["column_bytes"]
    assert size > COUNT * 100
    filled.columns = Columns(size + 100)
    assert names(filled) is not None
    with filled.read() as view:
        ready, find = filled.columns.step(view, 2, None, SEVEN, never)
    assert ready and find is not None
    assert filled.columns.statistics()["columns"] == 1
    assert names(filled) is not None


def test_type_that_is_too_large_is_scanned_until_it_has_shrunk(
    filled: Journal, model: Model, read: list[bytes]
) -> None:
    names(filled)
    filled.columns = Columns(filled.columns.statistics()["column_bytes"] - 1)
    read.clear()
    assert names(filled) is None
    assert len(read) == COUNT
    assert names(filled) is None
    assert len(read) == COUNT  # it does not try again
    filled.append([model.remove(f"n{number:03d}") for number in range(20)])
    assert names(filled) is None


def test_replay_before_its_end_scans(filled: Journal) -> None:
    filled.close()
    recording = Recording.open_folder(filled.path)
    try:
        recording.position = 200
        with recording.read() as view:
            assert recording.columns.step(view, 1, None, SEVEN, never) == (True, None)
            assert len(view.page(1, match=seven).bodies) == 20
    finally:
        recording.close()


def spoil(journal: Journal, change: Callable[[bytes], bytes | None]) -> None:
    key, database = keys.of_object(1, "default", "n007"), journal.environment.databases.state

    def write(txn: Any) -> None:
        value = change(bytes(txn.get(key, db=database)))
        if value is None:
            txn.delete(key, db=database)
        else:
            txn.put(key, value, db=database)

    journal.environment.write(write)


@pytest.mark.parametrize("is_made", [True, False])
def test_damaged_row_is_never_returned(filled: Journal, is_made: bool) -> None:
    if is_made:
        names(filled)
    spoil(filled, lambda row: row[:-1] + bytes((row[-1] ^ 1,)))
    with pytest.raises(Damaged, match="n007 does not match its checksum"):
        names(filled)


@pytest.mark.parametrize("is_made", [True, False])
def test_lost_row_is_found(filled: Journal, is_made: bool) -> None:
    if is_made:
        names(filled)
    spoil(filled, lambda _: None)
    with pytest.raises(Damaged):
        search_or_scan(filled)


def search_or_scan(journal: Journal) -> None:
    with journal.read() as view:
        _, find = journal.columns.step(view, 1, None, SEVEN, never)
        view.page(1, match=seven, find=find)

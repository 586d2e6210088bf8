"""Damaged records are never returned: the read that finds the damage raises, and so does verify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rewound.journal import Journal, keys, records
from rewound.journal.errors import Damaged
from rewound.journal.repair import verify
from rewound.journal.view import View
from tests.journal.model import Model

KEY = keys.of_object(1, "default", "n05")
OTHER = keys.of_object(1, "default", "n06")


@pytest.fixture
def filled(journal: Journal, model: Model) -> Journal:
    journal.append([model.put(f"n{i:02d}") for i in range(10)])
    journal.append([model.put(f"n{i:02d}") for i in range(10)])
    return journal


def put(journal: Journal, database: str, key: bytes, value: bytes | None) -> None:
    """Change a record without the journal's checks."""
    handle = getattr(journal.environment.databases, database)

    def change(txn: Any) -> None:
        if value is None:
            txn.delete(key, db=handle)
        else:
            txn.put(key, value, db=handle)

    journal.environment.write(change)


def stored(journal: Journal, database: str, key: bytes) -> bytes:
    with journal.read() as view:
        return bytes(view.txn.get(key, db=getattr(journal.environment.databases, database)))


def flipped(value: bytes) -> bytes:
    return value[:-3] + bytes([value[-3] ^ 1]) + value[-2:]


READS: list[Callable[[View], object]] = [
    lambda view: view.get(1, "default", "n05"),
    lambda view: view.page(1, None),
    lambda view: view.page(1, "default", limit=8),
    lambda view: view.page(1, "default", after=("default", "n04"), limit=1),
    lambda view: list(view.rows(1)),
]


@pytest.mark.parametrize("read", READS)
def test_damaged_row_is_not_returned(filled: Journal, read: Callable[[View], object]) -> None:
    row = stored(filled, "state", KEY)
    put(filled, "state", KEY, bytes([row[0] ^ 1]) + row[1:])
    with pytest.raises(Damaged, match="n05"), filled.read() as view:
        read(view)


@pytest.mark.parametrize("read", READS[1:])
def test_damaged_row_is_not_returned_after_another_write(
    filled: Journal, read: Callable[[View], object]
) -> None:
    with filled.read() as view:
        for _ in range(2):  # rows that are read twice are cached
            read(view)
    row = stored(filled, "state", KEY)
    put(filled, "state", KEY, bytes([row[0] ^ 1]) + row[1:])
    put(filled, "by_type", keys.by_type(1, filled.head + 1), b"")
    with pytest.raises(Damaged, match="n05"), filled.read() as view:
        read(view)


def test_scan_after_the_last_object_reads_no_row_of_another_type(filled: Journal, model: Model) -> None:
    """A damaged row of the next type would raise."""
    filled.append([model.put("other", type_id=2)])
    other = keys.of_object(2, "default", "other")
    put(filled, "state", other, flipped(stored(filled, "state", other)))
    with filled.read() as view:
        assert list(view.rows(1, None, ("default", "n09"))) == []
        assert view.page(1, "default", after=("default", "n09"), limit=5).bodies == []


def test_cached_copy_from_before_the_damage_may_be_returned(filled: Journal, model: Model) -> None:
    with filled.read() as view:
        for _ in range(2):  # rows that are read twice are cached
            view.page(1, None)
    put(filled, "state", KEY, flipped(stored(filled, "state", KEY)))
    with filled.read() as view:
        assert view.page(1, None).bodies == [row.body for _, _, row in model.rows(1)]


@pytest.mark.parametrize("read", READS[:3])
def test_row_under_another_key_is_not_returned(filled: Journal, read: Callable[[View], object]) -> None:
    put(filled, "state", KEY, stored(filled, "state", OTHER))
    with pytest.raises(Damaged, match="n05"), filled.read() as view:
        read(view)


def test_list_with_a_missing_row_is_not_returned(filled: Journal) -> None:
    put(filled, "state", KEY, None)
    with pytest.raises(Damaged, match="says 10 objects"), filled.read() as view:
        view.page(1, None)


def test_list_with_a_wrong_count_is_not_returned(filled: Journal) -> None:
    scope = keys.pack_type(1)
    put(filled, "counts", scope, records.encode_count(scope, 4))
    with filled.read() as view:
        assert view.page(1, None, limit=2).more
    with pytest.raises(Damaged, match="says 4 objects"), filled.read() as view:
        view.page(1, None)


def test_damaged_count_is_not_returned(filled: Journal) -> None:
    put(filled, "counts", keys.pack_type(1), b"\0" * 12)
    with pytest.raises(Damaged), filled.read() as view:
        view.count(1, None)


def test_damaged_event_is_not_returned(filled: Journal) -> None:
    put(filled, "events", keys.pack_offset(6), flipped(stored(filled, "events", keys.pack_offset(6))))
    reads: list[Callable[[View], object]] = [
        lambda view: view.event(6),
        lambda view: list(view.events(0)),
        lambda view: list(view.events(0, type_id=1)),
        lambda view: list(view.history(1, "default", "n05")),
        lambda view: view.at(10).get(1, "default", "n05"),
        lambda view: view.at(10).page(1, None),
    ]
    for read in reads:
        with pytest.raises(Damaged, match="event 6"), filled.read() as view:
            read(view)


def test_missing_event_raises_damaged(filled: Journal) -> None:
    put(filled, "events", keys.pack_offset(6), None)
    for read in (lambda view: list(view.events(0, type_id=1)), lambda view: view.at(10).page(1, None)):
        with pytest.raises(Damaged, match=r"event 6 .* is missing"), filled.read() as view:
            read(view)


def test_missing_index_entry_raises_damaged(filled: Journal) -> None:
    put(filled, "by_object", keys.by_object(KEY, 16), None)
    with pytest.raises(Damaged, match="lost an event"), filled.read() as view:
        view.at(10).get(1, "default", "n05")


def test_index_entry_of_another_object_raises_damaged(filled: Journal) -> None:
    put(filled, "by_object", keys.by_object(KEY, 7), b"")
    with pytest.raises(Damaged, match="event 7 is not the one"), filled.read() as view:
        list(view.history(1, "default", "n05"))


@pytest.mark.parametrize(
    ("database", "key", "change", "expected"),
    [
        ("events", keys.pack_offset(6), flipped, "event 6 does not match its checksum"),
        ("state", KEY, flipped, "the state of type 1, default/n05 does not match its checksum"),
        ("state", KEY, lambda _: None, "the state of type 1, default/n05 is missing"),
        ("state", OTHER + b"x", lambda _: records.encode_row(OTHER + b"x", 3, b"", b""), "a replay says 0"),
        ("by_type", keys.by_type(1, 6), flipped, "the index entry of event 6 does not match its checksum"),
        ("by_type", keys.by_type(1, 6), lambda _: None, "the index by type does not have event 6"),
        ("by_type", keys.by_type(2, 99), lambda _: b"", "the index by type has 21 entries for 20 events"),
        ("by_object", keys.by_object(KEY, 6), lambda _: None, "the index by object does not have event 6"),
        ("counts", keys.pack_type(1), flipped, "the count of type 1,  does not match its checksum"),
        ("counts", keys.pack_type(1), lambda _: None, "0 objects are counted in type 1, , a replay says 10"),
    ],
)
def test_verify_finds_damage(
    filled: Journal, database: str, key: bytes, change: Callable[[bytes], bytes | None], expected: str
) -> None:
    value = change(stored_or_nothing(filled, database, key))
    put(filled, database, key, value)
    with filled.read() as view:
        report = verify.verify(view)
    assert not report.sound
    assert any(expected in difference for difference in report.differences), report.differences


def stored_or_nothing(journal: Journal, database: str, key: bytes) -> bytes:
    with journal.read() as view:
        return bytes(view.txn.get(key, default=b"", db=getattr(journal.environment.databases, database)))


def test_verify_finds_row_that_differs_from_its_event(filled: Journal) -> None:
    put(filled, "state", KEY, records.encode_row(KEY, 16, b"", b"{}"))
    with filled.read() as view:
        assert verify.verify(view).differences == [
            "the state of type 1, default/n05 is not what event 16 says"
        ]


def test_verify_finds_decreasing_times(filled: Journal, model: Model) -> None:
    filled.append([model.put("n05")._replace(time=5)])
    with filled.read() as view:
        assert verify.verify(view).differences == ["event 21 is earlier than the one before it"]


def test_verify_lists_the_first_differences_and_counts_all(journal: Journal, model: Model) -> None:
    journal.append([model.put(f"n{i:02d}") for i in range(50)])
    for i in range(50):
        put(journal, "state", keys.of_object(1, "default", f"n{i:02d}"), None)
    with journal.read() as view:
        report = verify.verify(view)
    assert (report.wrong, len(report.differences)) == (50, verify.SHOWN)


def test_verify_reports_progress(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "STEP", 10)
    progress: list[int] = []
    with filled.read() as view:
        report = verify.verify(view, progress.append)
    assert (report.sound, report.events, report.rows, progress) == (True, 20, 10, [10, 20, 30])


def test_lost_row_is_not_reported_as_absent(filled: Journal) -> None:
    """A flipped bit in the key of a row hides the object: "not found" would be wrong."""
    row = stored(filled, "state", KEY)
    put(filled, "state", KEY, None)
    put(filled, "state", KEY[:-1] + b"7x", row)
    reads: list[Callable[[], object]] = [
        lambda: filled.body(1, "default", "n05"),
        lambda: read(filled, lambda view: view.get(1, "default", "n05")),
        lambda: read(filled, lambda view: view.at(19).get(1, "default", "n05")),
    ]
    for one in reads:
        with pytest.raises(Damaged, match="the state of type 1, default/n05 is missing"):
            one()


def read(journal: Journal, get: Callable[[View], object]) -> object:
    with journal.read() as view:
        return get(view)


def test_object_that_was_removed_or_never_existed_is_absent(filled: Journal, model: Model) -> None:
    filled.append([model.remove("n05")])
    for name in ("n05", "n05a", "n0", "zz", "a"):
        assert filled.body(1, "default", name) is None
        assert read(filled, lambda view, name=name: view.get(1, "default", name)) is None  # type: ignore[misc]
    assert filled.body(1, "zz", "n05") is None
    assert filled.body(9, "default", "n05") is None


@pytest.mark.parametrize("lost", [6, 16])
def test_history_without_one_of_its_events_is_not_returned(filled: Journal, lost: int) -> None:
    put(filled, "by_object", keys.by_object(KEY, lost), None)
    with pytest.raises(Damaged, match="lost an event"), filled.read() as view:
        list(view.history(1, "default", "n05"))


@pytest.mark.parametrize("database", ["by_type", "events"])
@pytest.mark.parametrize(("moved", "to"), [(6, 5), (20, 99)])
def test_entry_whose_key_left_the_range_is_found(
    journal: Journal, model: Model, database: str, moved: int, to: int
) -> None:
    """A flipped bit in a key moves an entry; reads of a range must not miss it silently."""
    journal.append([model.put(f"n{at:02d}") for at in range(20)])
    key = keys.by_type if database == "by_type" else lambda _, offset: keys.pack_offset(offset)
    value = stored(journal, database, key(1, moved))
    put(journal, database, key(1, moved), None)
    if to == 5:
        put(journal, database, key(1, 5), None)
    put(journal, database, key(1, to), value)
    with pytest.raises(Damaged), journal.read() as view:
        list(view.events(5, type_id=1) if database == "by_type" else view.all_events(5))

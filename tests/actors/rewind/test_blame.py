"""Blame equals a simple model: a field belongs to the version since which it has had its value without a break."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.rewind.blame import blame, owners_after
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.versions import Address, newest, read_slice
from rewound.journal import Event, Journal, keys, retention
from rewound.journal.errors import Damaged
from tests.examples import examples

values = st.recursive(
    st.sampled_from(["x", "y"]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(st.sampled_from("abc"), values, min_size=1, max_size=3)


@examples(100)
@given(st.lists(documents, min_size=1, max_size=6))
def test_every_field_belongs_to_the_version_that_set_it(versions: list[dict[str, Any]]) -> None:
    owners: Any = 0
    for number, document in enumerate(versions[1:], 1):
        owners = (
            owners
            if document == versions[number - 1]
            else owners_after(versions[number - 1], owners, document, number)
        )
    for path, value in leaves(versions[-1]):
        assert owner_at(owners, path) == expected(versions, path, value), path


def leaves(document: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(document, dict):
        return [(path, document)]
    return [leaf for key, value in document.items() for leaf in leaves(value, (*path, key))]


def owner_at(owners: Any, path: tuple[str, ...]) -> int:
    for key in path:
        if isinstance(owners, int):
            return owners
        owners = owners[key]
    assert isinstance(owners, int)
    return owners


def expected(versions: list[dict[str, Any]], path: tuple[str, ...], value: Any) -> int:
    """The first version of the last run of versions that have this value at the path."""
    number = len(versions) - 1
    while number and dict(leaves(versions[number - 1])).get(path) == value:
        number -= 1
    return number


@pytest.mark.parametrize("previous", [0, 1, 2, 77])
def test_an_index_that_differs_from_the_events_is_damage(tmp_path: Path, previous: int) -> None:
    journal = Journal.open(tmp_path / "journal")
    write(journal, [{"n": number} for number in range(5)])
    last = run(newest(journal, Address(1, "", "a"), 100))
    assert last is not None
    key, by_type = keys.by_type(1, 4), journal.environment.databases.by_type
    with journal.read() as view:
        entry = bytes(view.txn.get(key, db=by_type))
    damaged = (
        entry[:6] + keys.pack_offset(previous) + entry[14:]
    )  # a link: check:4 layout:1 removed:1 previous:8
    journal.environment.write(lambda txn: txn.put(key, damaged, db=by_type))
    with pytest.raises(Damaged):
        run(blame(journal, last))
    journal.close()


def write(journal: Journal, contents: list[dict[str, Any] | None]) -> None:
    """One object: None deletes it."""
    journal.register_type("things")
    previous, last = 0, b""
    for content in contents:
        offset = journal.head + 1
        removed = content is None
        if content is not None:
            last = orjson.dumps({"metadata": {"name": "a", "resourceVersion": str(offset)}, **content})
        event = Event(
            offset,
            1,
            "delete" if removed else "update",
            "",
            "a",
            previous,
            removed,
            offset,
            "u",
            "m",
            b"",
            last,
        )
        journal.append([event])
        previous = 0 if removed else offset


def test_blame_begins_with_the_creation_of_the_object(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal")
    write(
        journal,
        [{"a": 1}, {"a": 1, "b": 1}, None, {"a": 1}, {"a": 1, "list": [1, 2]}, {"a": 1, "list": [2, 3]}],
    )
    last = run(newest(journal, Address(1, "", "a"), 100))
    assert last is not None
    found = run(blame(journal, last))
    assert {one.field: one.version for one in found.fields} == {
        "metadata.name": 4,
        "a": 4,
        "list[0]": 5,
        "list[1]": 6,
    }
    assert found.oldest == 0
    while not retention.advance(journal, 5).done:
        pass
    found = run(blame(journal, last))
    assert {one.version for one in found.fields} == {5, 6}
    assert found.oldest == 5
    journal.close()


def test_long_histories_are_read_in_slices(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal")
    write(journal, [{"n": number, "fixed": 1} for number in range(700)])
    last = run(newest(journal, Address(1, "", "a"), 1000))
    assert last is not None
    found = run(blame(journal, last))
    assert {one.field: one.version for one in found.fields} == {"metadata.name": 1, "n": 700, "fixed": 1}
    page = read_slice(journal, Address(1, "", "a"), 1000, 500)
    assert [one.event.offset for one in page.versions] == list(range(700, 700 - len(page.versions), -1))
    assert page.following == 700 - len(page.versions)
    journal.close()


def test_parts_that_do_not_change_are_not_mistaken_for_others(tmp_path: Path) -> None:
    """Large equal parts are removed from the bytes before comparing, even if another part contains the same bytes."""
    journal = Journal.open(tmp_path / "journal")
    spec = {"text": "x" * 400, "list": [1, 2]}
    text = orjson.dumps({"spec": spec}).decode()
    contents: list[dict[str, Any] | None] = [
        {"spec": spec, "status": 1},
        {"spec": spec, "status": 2},
        {"before": {"spec": spec}, "spec": spec, "status": 3},
        {"before": {"spec": spec}, "spec": {**spec, "list": [1]}, "status": text},
        {"before": {"spec": spec}, "spec": {**spec, "list": [1]}, "status": text + "!"},
        {"before": {"spec": spec}, "status": 4},
        {"before": {"spec": spec}, "spec": spec, "status": 4},
    ]
    write(journal, contents)
    expected = [
        {"spec.text": 1, "spec.list[0]": 1, "spec.list[1]": 1, "status": 1},
        {"spec.text": 1, "spec.list[0]": 1, "spec.list[1]": 1, "status": 2},
        {"before.spec.text": 3, "spec.text": 1, "status": 3},
        {"before.spec.text": 3, "spec.text": 1, "spec.list[0]": 1, "status": 4},
        {"before.spec.text": 3, "spec.text": 1, "spec.list[0]": 1, "status": 5},
        {"before.spec.text": 3, "status": 6},
        {"before.spec.text": 3, "spec.text": 7, "spec.list[1]": 7, "status": 6},
    ]
    for number, owners in enumerate(expected, 1):
        last = run(newest(journal, Address(1, "", "a"), number))
        assert last is not None
        found = {one.field: one.version for one in run(blame(journal, last)).fields}
        assert owners.items() <= found.items(), number
        names = {field.partition(".")[0].partition("[")[0] for field in found}
        content = contents[number - 1]
        assert content is not None and names == {"metadata", *content}
    journal.close()

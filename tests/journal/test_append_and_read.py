from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.keys import LARGEST_OFFSET
from tests.journal.model import Model


def test_empty_journal_has_no_events_or_objects(journal: Journal) -> None:
    assert journal.head == 0
    with journal.read() as view:
        assert view.head == 0
        assert view.get(1, "default", "a") is None
        assert view.count(1, None) == 0
        assert view.page(1, None, after=None, limit=None, match=None).bodies == []
        assert list(view.events(0)) == []


def test_appended_events_are_read_back(journal: Journal, model: Model) -> None:
    created, changed = model.put("a"), model.put("a")
    journal.append([created, changed])
    journal.append([model.put("b", namespace="other")])
    assert journal.head == 3
    with journal.read() as view:
        row = view.get(1, "default", "a")
        assert row is not None and (row.offset, row.facts, row.body) == (2, changed.facts, changed.body)
        assert view.event(1) == created
        assert list(view.events(1)) == model.events[1:]
        assert view.head == 3


def test_events_can_be_read_by_type(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("b", type_id=2), model.put("a"), model.put("c", type_id=3)])
    with journal.read() as view:
        assert [event.offset for event in view.events(0, type_id=1)] == [1, 3]
        assert [event.offset for event in view.events(1, type_id=1)] == [3]
        assert [event.offset for event in view.events(0, type_id=3)] == [4]
        assert list(view.events(0, type_id=9)) == []


def test_removed_object_can_be_created_again(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.remove("a")])
    with journal.read() as view:
        assert view.get(1, "default", "a") is None
        assert view.count(1, None) == 0
    journal.append([model.put("a")])
    with journal.read() as view:
        row = view.get(1, "default", "a")
        assert row is not None and row.offset == 3


def test_contents_survive_closing(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path)
    kind = journal.register_type("configmaps")
    journal.append([model.put("a", type_id=kind), model.put("b", type_id=kind)])
    journal.close()
    again = Journal.open(tmp_path)
    assert (again.head, again.types()) == (2, {"configmaps": kind})
    with again.read() as view:
        assert [name for _, name, _ in view.rows(kind)] == ["a", "b"]
    again.close()


def test_type_keeps_its_id(journal: Journal) -> None:
    first, second = (
        journal.register_type("configmaps"),
        journal.register_type("leases.coordination.cluster.io"),
    )
    assert first != second
    assert journal.register_type("configmaps") == first
    assert journal.types() == {"configmaps": first, "leases.coordination.cluster.io": second}


def test_types_are_registered_in_one_transaction(journal: Journal) -> None:
    before = journal.environment.statistics()["transactions"]
    journal.register_types(["a", "b", "a", "c"])
    assert journal.environment.statistics()["transactions"] == before + 1
    journal.register_types(["c", "b"])
    assert journal.environment.statistics()["transactions"] == before + 1
    assert journal.types() == {"a": 1, "b": 2, "c": 3}


def test_lookup_of_a_type_writes_nothing(journal: Journal) -> None:
    before = journal.environment.statistics()["transactions"]
    assert journal.type_id("never-registered") == 0
    assert journal.types() == {}
    assert journal.environment.statistics()["transactions"] == before


def test_offsets_must_ascend(journal: Journal, model: Model) -> None:
    journal.append([model.put("a")])
    with pytest.raises(ValueError, match="ascend"):
        journal.append([model.put("b")._replace(offset=1)])


def test_offset_that_could_not_be_read_is_refused(journal: Journal, model: Model) -> None:
    journal.append([model.put("a")])
    with pytest.raises(ValueError, match="could not be read"):
        journal.append([model.put("b")._replace(offset=LARGEST_OFFSET + 1)])
    assert journal.head == 1


def test_offsets_may_have_gaps(journal: Journal, model: Model) -> None:
    journal.append([model.put("a")._replace(offset=7)])
    assert journal.head == 7


def test_event_must_follow_the_stored_state(journal: Journal, model: Model) -> None:
    journal.append([model.put("a")])
    with pytest.raises(ValueError, match="follows 9"):
        journal.append([model.put("a")._replace(previous=9)])
    with journal.read() as view:
        assert view.head == 1


def test_batch_of_new_objects_is_refused_whole_if_one_exists(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("b")])
    batch = [model.put("c"), model.put("b")._replace(previous=0), model.put("d")]
    with pytest.raises(ValueError, match=r"default/b follows 0, but its state is that of 2"):
        journal.append(batch)
    with journal.read() as view:
        assert view.head == 2 and view.count(1) == 2


def test_batch_cannot_create_an_object_twice(journal: Journal, model: Model) -> None:
    batch = [model.put("a"), model.put("b"), model.put("a")._replace(previous=0)]
    with pytest.raises(ValueError, match=r"default/a follows 0, but its state is that of 1"):
        journal.append(batch)
    with journal.read() as view:
        assert view.head == 0 and view.count(1) == 0


def test_view_does_not_see_later_writes(journal: Journal, model: Model) -> None:
    journal.append([model.put("a")])
    with journal.read() as view:
        journal.append([model.put("a"), model.put("b")])
        row = view.get(1, "default", "a")
        assert row is not None and row.offset == 1
        assert (view.head, view.count(1, None)) == (1, 1)
    assert journal.head == 3

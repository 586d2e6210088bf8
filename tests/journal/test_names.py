from __future__ import annotations

import pytest

from rewound.journal import Journal, keys
from rewound.journal.errors import BadName, CannotStore, NameTooLong
from tests.journal.model import Model

IMPOSSIBLE = ["", "a\0b", "\ud800", "n" * (keys.MAX_NAMES + 1), "é" * 300]


@pytest.mark.parametrize("name", IMPOSSIBLE, ids=["empty", "zero", "surrogate", "long", "long-in-bytes"])
def test_name_that_cannot_be_stored_is_not_found(journal: Journal, model: Model, name: str) -> None:
    journal.append([model.put("a")])
    journal.append([model.put("a")])
    with journal.read() as view:
        assert view.get(1, "default", name) is None
        assert view.at(1).get(1, "default", name) is None
        assert list(view.history(1, "default", name)) == []
    with pytest.raises(CannotStore):
        journal.append([model.put(name)])
    assert journal.head == 2


@pytest.mark.parametrize("namespace", ["a\0b", "\ud800", "n" * 600])
def test_namespace_that_cannot_be_stored_is_empty(journal: Journal, model: Model, namespace: str) -> None:
    journal.append([model.put("a")])
    journal.append([model.put("a")])
    with journal.read() as view:
        for past in (view, view.at(1)):
            assert past.get(1, namespace, "a") is None
            assert past.count(1, namespace) == 0
            assert past.page(1, namespace).bodies == []
            assert list(past.rows(1, namespace)) == []


def test_write_with_a_bad_name_is_refused() -> None:
    with pytest.raises(NameTooLong, match=f"600 bytes; the journal takes at most {keys.MAX_NAMES}"):
        keys.of_object(1, "n" * 100, "x" * 500)
    with pytest.raises(BadName, match="NUL character"):
        keys.of_object(1, "n", "a\0b")


def test_longest_name_can_be_stored(journal: Journal, model: Model) -> None:
    longest = "n" * (keys.MAX_NAMES - len("default"))
    journal.append([model.put(longest)])
    journal.append([model.put(longest)])
    with journal.read() as view:
        row = view.get(1, "default", longest)
        assert row is not None and row.offset == 2
        assert [event.offset for event in view.history(1, "default", longest)] == [1, 2]
        assert view.page(1, None, after=("default", longest), limit=1).bodies == []


def test_names_with_a_common_prefix_have_separate_histories(journal: Journal, model: Model) -> None:
    journal.append([model.put("a"), model.put("a-b"), model.put("a", namespace="d"), model.put("a")])
    with journal.read() as view:
        assert [event.offset for event in view.history(1, "default", "a")] == [1, 4]
        assert [event.offset for event in view.history(1, "default", "a-b")] == [2]
        assert [event.offset for event in view.history(1, "d", "a")] == [3]
        assert list(view.history(2, "default", "a")) == []

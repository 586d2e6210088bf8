from __future__ import annotations

import pytest

from rewound.journal import Journal
from rewound.journal.state import CACHEABLE_ROWS
from tests.journal.model import Model


def fill(journal: Journal, model: Model) -> None:
    journal.append(
        [model.put(f"n{i:02d}", namespace=space) for space in ("a", "a-b", "b") for i in range(10)]
    )
    journal.append([model.put("other", type_id=2), model.put("n00", type_id=3, namespace="a")])


def test_lists_are_ordered_by_namespace_then_name(journal: Journal, model: Model) -> None:
    for namespace, name in [
        ("b", "x"),
        ("a-b", "x"),
        ("a", "10"),
        ("a", "9"),
        ("a", "a.b"),
        ("a", "a-b"),
        ("a", "é"),
    ]:
        journal.append([model.put(name, namespace=namespace)])
    with journal.read() as view:
        found = [(namespace, name) for namespace, name, _ in view.rows(1, None)]
    expected = [("a", "10"), ("a", "9"), ("a", "a-b"), ("a", "a.b"), ("a", "é"), ("a-b", "x"), ("b", "x")]
    assert found == expected


def test_pages_cover_the_whole_list(journal: Journal, model: Model) -> None:
    fill(journal, model)
    with journal.read() as view:
        for namespace, total in ((None, 30), ("a", 10), ("a-b", 10), ("missing", 0)):
            for limit in (1, 3, 10, 29, 30, 31):
                after, bodies = None, []
                while True:
                    page = view.page(1, namespace, after=after, limit=limit, match=None)
                    bodies += page.bodies
                    assert len(page.bodies) == limit or not page.more
                    if not page.more:
                        break
                    after = page.last
                assert bodies == [row.body for _, _, row in model.rows(1, namespace)]
                assert view.count(1, namespace) == total == len(bodies)


@pytest.mark.parametrize("limit", [1, 2, 5, 14, 15, 16, None])
def test_more_is_set_when_another_object_matches(journal: Journal, model: Model, limit: int | None) -> None:
    fill(journal, model)
    matching = [row.body for _, _, row in model.rows(1) if row.facts == b"even"]
    with journal.read() as view:
        page = view.page(1, None, after=None, limit=limit, match=lambda facts, _: facts == b"even")
    assert page.bodies == matching[:limit]
    assert page.more == (limit is not None and limit < len(matching))


def test_page_may_start_after_a_missing_object(journal: Journal, model: Model) -> None:
    fill(journal, model)
    with journal.read() as view:
        page = view.page(1, None, after=("a", "n03x"), limit=2, match=None)
        assert page.last == ("a", "n05")
        assert view.page(1, "a", after=("zz", ""), limit=2, match=None).bodies == []
        assert view.page(1, "a", after=("b" * 600, "\ud800"), limit=2, match=None).bodies == []


def test_scan_longer_than_the_cache(journal: Journal, model: Model) -> None:
    total = CACHEABLE_ROWS + 700
    events = [model.put(f"n{i:05d}", namespace="a") for i in range(3)]
    template = events[0]
    many = [
        type(template)(3 + i, 1, "create", "b", f"n{i:05d}", 0, False, i, "u", "m", b"f", b"%d" % i)
        for i in range(1, total + 1)
    ]
    journal.append([*events, *many])
    with journal.read() as view:
        assert view.page(1, "b").bodies == [event.body for event in many]
        assert len(view.page(1, None).bodies) == total + 3
        last = view.page(
            1, None, limit=1, match=lambda facts, _: facts == b"f", after=("b", f"n{total - 1:05d}")
        )
        assert (last.bodies, last.more) == ([b"%d" % total], False)
        assert view.page(1, None, limit=5, match=lambda facts, _: False).bodies == []


def test_pages_show_changes(journal: Journal, model: Model) -> None:
    fill(journal, model)
    with journal.read() as view:
        view.page(1, None)
    journal.append(
        [model.put("n05", namespace="a"), model.remove("n06", namespace="a"), model.put("n99", namespace="b")]
    )
    with journal.read() as view:
        assert view.page(1, None).bodies == [row.body for _, _, row in model.rows(1)]

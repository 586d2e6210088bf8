"""The index of dependents equals a scan of all objects, and has no entries for objects without owners."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.controllers.garbage_collector import Dependents, DependentsStatistics, Key

keys = st.tuples(st.integers(1, 2), st.sampled_from(["", "n"]), st.sampled_from("abc"))
owners = st.lists(st.sampled_from("uvw")).map(tuple)
changes = st.lists(st.tuples(keys, st.none() | owners))


@given(changes)
def test_index_equals_a_scan_after_every_change(changes: list[tuple[Key, tuple[str, ...] | None]]) -> None:
    index, objects = Dependents(), dict[Key, tuple[str, ...]]()
    for key, owned_by in changes:
        if owned_by is None:
            index.drop(key)
            objects.pop(key, None)
        else:
            gained = set(owned_by) - set(objects.get(key, ()))
            assert index.update(key, owned_by) == bool(gained)
            objects[key] = owned_by
        for uid in "uvw":
            expected = {key for key, owned_by in objects.items() if uid in owned_by}
            assert set(index.of(uid)) == expected
            assert index.has_dependents(uid) == bool(expected)
    owned = [owned_by for owned_by in objects.values() if owned_by]
    assert index.statistics() == DependentsStatistics(len(set(sum(owned, ()))), len(owned))


def test_index_has_no_entry_for_objects_without_owners() -> None:
    index = Dependents()
    index.update((1, "n", "a"), ())
    assert index.statistics() == DependentsStatistics(0, 0)


class CountedUid(str):
    """Counts how often uids are compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedUid.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_changing_many_owners_compares_each_a_few_times() -> None:
    before, after = (tuple(f"{letter}{number}" for number in range(500)) for letter in "ab")
    index, key = Dependents(), (1, "n", "a")
    index.update(key, before)
    index._owners[key] = tuple(map(CountedUid, before))
    assert index.update(key, after)
    assert CountedUid.compared < 10 * 500
    assert index.of("b499") == [key] and not index.has_dependents("a0")

"""Field errors are plain values; a collector keeps them in order, bounds their number, and shares nothing with
others.
"""

from __future__ import annotations

import pytest

from rewound.actors.errors import MAX_COUNTED
from rewound.actors.kinds.validation import FieldError, FieldErrors, TooManyErrors, collect, invalid
from tests.cases import cases


def break_rules(errors: FieldErrors, count: int) -> None:
    for at in range(count):
        errors.add(invalid(f"f{at}", at, "no"))


def test_constructing_very_many_errors_has_no_effect() -> None:
    def construct_and_drop(errors: FieldErrors) -> None:
        for at in range(100_000):
            FieldError("FieldValueInvalid", f"f{at}", "no")
        errors.add(invalid("kept", 1, "no"))

    construct_and_drop(FieldErrors())
    assert [error.field for error in collect(construct_and_drop)] == ["kept"]


def test_interleaved_collectors_do_not_see_each_other() -> None:
    one, other = FieldErrors(), FieldErrors()
    for at in range(MAX_COUNTED):
        one.add(invalid(f"one{at}", at, "no"))
        other.add(invalid(f"other{at}", at, "no"))
    assert {error.field[:3] for error in one.found} == {"one"}
    assert {error.field[:5] for error in other.found} == {"other"}
    with pytest.raises(TooManyErrors):
        one.add(invalid("one", 0, "no"))
    assert (len(one.found), len(other.found)) == (MAX_COUNTED + 1, MAX_COUNTED)


def test_a_collection_inside_another_has_its_own_bound() -> None:
    def outer(errors: FieldErrors) -> None:
        assert len(collect(break_rules, MAX_COUNTED * 2)) == MAX_COUNTED + 1
        errors.add(invalid("outer", 1, "no"))

    assert [error.field for error in collect(outer)] == ["outer"]


@cases(
    ("broken", "found"),
    [(0, 0), (3, 3), (MAX_COUNTED, MAX_COUNTED), (MAX_COUNTED * 5, MAX_COUNTED + 1)],
)
def test_collection_ends_past_the_bound(broken: int, found: int) -> None:
    assert [error.field for error in collect(break_rules, broken)] == [f"f{at}" for at in range(found)]


def test_the_bound_holds_for_every_way_of_adding() -> None:
    many = [invalid(f"f{at}", at, "no") for at in range(MAX_COUNTED * 2)]

    def all_at_once(errors: FieldErrors) -> None:
        errors.add_all(many)

    def each_text(errors: FieldErrors) -> None:
        errors.add_each("f", 1, (str(at) for at in range(MAX_COUNTED * 2)))

    def through_another(errors: FieldErrors) -> None:
        errors.added_by(break_rules, MAX_COUNTED * 2)

    for rules in (all_at_once, each_text, through_another):
        assert len(collect(rules)) == MAX_COUNTED + 1


def test_added_by_returns_only_what_the_rules_added() -> None:
    errors = FieldErrors()
    errors.add(invalid("first", 1, "no"))
    added = errors.added_by(break_rules, 2)
    assert [error.field for error in added] == ["f0", "f1"]
    errors.add_all(added)
    assert [error.field for error in errors.found] == ["first", "f0", "f1", "f0", "f1"]
    assert errors.added_by(break_rules, 0) == []


def test_exceptions_of_rules_propagate() -> None:
    def broken(_: FieldErrors) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        collect(broken)

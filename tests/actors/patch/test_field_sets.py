"""Field sets obey the laws of sets, and survive a round trip through their wire format."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.patch.managed_fields.field_set import (
    Fields,
    difference,
    has_exactly,
    intersection,
    members,
    read_fields,
    union,
)

ELEMENTS = st.sampled_from(
    ["f:a", "f:b", "f:spec", 'k:{"name":"x"}', 'k:{"port":80,"protocol":"TCP"}', 'v:"x"', "i:0"]
)
PATHS = st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple)
PATH_SETS = st.frozensets(PATHS, max_size=8)


def of_members(*paths: tuple[str, ...]) -> Fields:
    """The set with these members."""
    fields: Fields = {}
    for path in paths:
        below: Fields = {}
        for element in reversed(path):
            below = {element: below}
        fields = union(fields, below)
    return fields


SETS = PATH_SETS.map(lambda paths: of_members(*paths))


@given(PATH_SETS)
def test_a_set_has_the_members_it_was_made_of(paths):
    assert set(members(of_members(*paths))) == paths


@given(PATH_SETS, PATH_SETS)
def test_operations_are_those_of_sets(some, others):
    one, other = of_members(*some), of_members(*others)
    assert set(members(union(one, other))) == some | others
    assert set(members(difference(one, other))) == some - others
    assert set(members(intersection(one, other))) == some & others


@given(PATH_SETS, PATH_SETS)
def test_equal_sets_compare_equal(some, others):
    one, other = of_members(*some), of_members(*others)
    assert union(one, other) == union(other, one) == of_members(*(some | others))
    assert difference(union(one, other), other) == of_members(*(some - others))
    assert intersection(one, other) == intersection(other, one) == of_members(*(some & others))


@given(SETS, SETS, SETS)
def test_laws_of_three_sets(one, other, third):
    assert union(union(one, other), third) == union(one, union(other, third))
    assert difference(difference(one, other), third) == difference(one, union(other, third))
    assert intersection(one, union(other, third)) == union(intersection(one, other), intersection(one, third))


@given(SETS, SETS)
def test_nothing_is_changed_and_unchanged_sets_are_returned_themselves(one, other):
    before, beside = deepcopy(one), deepcopy(other)
    union(one, other), difference(one, other), intersection(one, other)
    assert one == before and other == beside
    assert union(one, intersection(one, other)) is one
    assert difference(one, difference(other, one)) is one


@given(SETS)
def test_fields_v1_round_trips(fields):
    assert read_fields(deepcopy(fields)) == fields


@given(SETS, SETS)
def test_operations_keep_order(one, other):
    for made in (union(one, other), difference(one, other), read_fields(dict(reversed(one.items())))):
        assert is_in_order(made)


def is_in_order(fields):
    return list(fields) == sorted(fields) and all(is_in_order(node) for node in fields.values())


@given(SETS, SETS)
def test_taking_away_and_adding_what_a_set_has_exactly_leaves_it(one, other):
    if has_exactly(one, other):
        assert union(difference(one, other), other) == one


def test_a_set_has_exactly_members_of_its_own_form():
    fields = {"f:spec": {".": {}, "f:a": {}, "f:b": {"f:c": {}}}}
    for has in (
        {},
        {"f:spec": {"f:a": {}}},
        {"f:spec": {".": {}, "f:a": {}}},
        {"f:spec": {"f:b": {"f:c": {}}}},
    ):
        assert has_exactly(fields, has), has
    for lacks in ({"f:x": {}}, {"f:spec": {}}, {"f:spec": {"f:b": {}}}, {"f:spec": {"f:a": {"f:c": {}}}}):
        assert not has_exactly(fields, lacks), lacks

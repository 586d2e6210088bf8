from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.rewind.difference import ABSENT, Change, describe, difference
from tests.cases import cases


def result(before: Any, after: Any) -> list[str]:
    return [f"{change.sign} {describe(change)}" for change in difference(before, after)]


@cases(
    ("before", "after", "expected"),
    [
        ({"data": {"color": "blue"}}, {"data": {"color": "red"}}, ['~ data.color: "blue" -> "red"']),
        ({"data": {"color": "blue"}}, {"data": {}}, ['- data.color: "blue"']),
        ({}, {"data": {"a": "1"}}, ['+ data: {"a":"1"}']),
        ({"a": 1}, {"a": True}, ["~ a: 1 -> true"]),
        ({"a": 1}, {"a": 1.0}, ["~ a: 1 -> 1.0"]),
        ({"a": None}, {}, ["- a: null"]),
        ({"a": {"b": 1}}, {"a": [1]}, ['~ a: {"b":1} -> [1]']),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
    ],
)
def test_changed_added_and_removed_fields(before: Any, after: Any, expected: list[str]) -> None:
    assert result(before, after) == expected


def test_key_that_is_not_an_identifier_is_quoted() -> None:
    before: dict[str, Any] = {"metadata": {"labels": {}}}
    after = {"metadata": {"labels": {"app.example/name": "web", "plain-key": "x"}}}
    assert result(before, after) == [
        '+ metadata.labels["app.example/name"]: "web"',
        '+ metadata.labels.plain-key: "x"',
    ]


def test_resource_version_is_ignored() -> None:
    assert result({"metadata": {"resourceVersion": "1"}}, {"metadata": {"resourceVersion": "2"}}) == []


def test_ignored_fields_are_not_compared() -> None:
    before, after = {"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 2}}
    assert difference(before, after, {"a.b"}) == [Change("a.c", 1, 2)]


def test_lists_of_scalars_show_added_and_removed_items() -> None:
    assert result({"f": ["a", "b"]}, {"f": ["c", "b"]}) == ['- f[]: "a"', '+ f[]: "c"']
    assert result({"f": ["a", "b"]}, {"f": ["b", "a"]}) == ['~ f[order]: ["a","b"] -> ["b","a"]']


def test_scalars_of_different_types_differ() -> None:
    assert result({"f": [1, 2]}, {"f": [True, 2]}) == ["- f[]: 1", "+ f[]: true"]


def test_lists_of_named_items_are_matched_by_name() -> None:
    web, side = {"name": "web", "image": "web:1"}, {"name": "side", "image": "s"}
    newer = {"name": "web", "image": "web:2"}
    assert result({"c": [web]}, {"c": [side, newer]}) == [
        '~ c[name=web].image: "web:1" -> "web:2"',
        '+ c[name=side]: {"name":"side","image":"s"}',
    ]
    assert result({"c": [web, side]}, {"c": [side, web]}) == ['~ c[order]: ["web","side"] -> ["side","web"]']


def test_conditions_are_matched_by_type() -> None:
    before = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}]}
    after = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "True"}]}
    assert result(before, after) == ['~ conditions[type=Ready].status: "False" -> "True"']


def test_other_lists_are_matched_by_position() -> None:
    assert result({"r": [{"p": 1}, [1]]}, {"r": [{"p": 2}, [1], 3]}) == ["~ r[0].p: 1 -> 2", "+ r[2]: 3"]


def test_long_values_are_shown_from_their_first_difference() -> None:
    before, after = "x" * 500 + "blue" + "y" * 500, "x" * 500 + "red" + "y" * 500
    (line,) = result({"data": {"text": before}}, {"data": {"text": after}})
    assert len(line) < 200
    assert "xxblue" in line
    assert "xxred" in line


def test_deeply_nested_documents_are_compared() -> None:
    one: Any = 1
    other: Any = 2
    for _ in range(20_000):
        one, other = {"a": one}, {"a": other}
    (change,) = difference(one, other)
    assert (change.before, change.after) == (1, 2)


def test_change_as_a_document() -> None:
    documents = [change.document() for change in difference({"a": 1, "b": 1}, {"a": 2, "c": None})]
    assert documents == [
        {"path": "a", "before": 1, "after": 2},
        {"path": "b", "before": 1},
        {"path": "c", "after": None},
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab.", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal, but true differs from 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(json_values, json_values)
def test_changes_exist_exactly_where_values_differ(one: Any, other: Any) -> None:
    assert bool(difference(one, other)) == (not same(one, other))


@given(json_values, json_values)
def test_reverse_difference_swaps_before_and_after(one: Any, other: Any) -> None:
    there = {(change.path, repr(change.before), repr(change.after)) for change in difference(one, other)}
    back = {(change.path, repr(change.after), repr(change.before)) for change in difference(other, one)}
    assert there == back
    assert repr(ABSENT) == "ABSENT"


def test_long_keys_and_paths_are_cut_and_stay_distinct() -> None:
    many = {"k" * 5000 + last: {"x": 1} for last in "ab"}
    paths = [change.path for change in difference({"a": many}, {"a": {key: {"x": 2} for key in many}})]
    assert len(set(paths)) == 2
    assert all(path.startswith('a["kkk') for path in paths)
    assert all(path.endswith(".x") and len(path) < 500 for path in paths)
    one: Any = {"b": 1, "c": 1}
    other: Any = {"b": 2, "c": 2}
    for number in range(500):
        one, other = {f"level{number}": one}, {f"level{number}": other}
    deep = [change.path for change in difference(one, other)]
    assert len(set(deep)) == 2
    assert all(path.startswith("level499.level498.") and len(path) <= 1000 for path in deep)
    assert [path[-2:] for path in deep] == [".b", ".c"]


def test_difference_stops_after_as_many_changes_as_wanted() -> None:
    one, other = {"a": {str(n): 1 for n in range(9)}}, {"a": {str(n): 2 for n in range(9)}}
    assert difference(one, other, most=4) == difference(one, other)[:4]
    assert difference({"f": [1, 2, 3]}, {"f": []}, most=2) == [
        Change("f[]", 1, ABSENT),
        Change("f[]", 2, ABSENT),
    ]

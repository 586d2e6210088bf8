"""Duplicate keys: the last wins, and each is reported with the line of its value."""

from rewound.gateway.wire.yaml import load, merge_problems


def duplicate(line: int, key: str) -> str:
    return f'line {line}: key "{key}" already set in map'


def test_duplicates_are_reported_in_document_order() -> None:
    loaded = load(b"a:\n  b:\n  - c: 1\n    c: 2\nkind: x\nkind: z\na: 5\n")
    assert loaded.value == {"a": 5, "kind": "z"}
    assert loaded.problems == (duplicate(4, "c"), duplicate(6, "kind"), duplicate(7, "a"))


def test_inner_duplicates_are_reported_before_outer_ones() -> None:
    loaded = load(b"a: 1\na:\n  b: 1\n  b: 2\n")
    assert loaded.problems == (duplicate(4, "b"), duplicate(3, "a"))


def test_duplicates_inside_lists_are_reported() -> None:
    loaded = load(b"- a\n- - x: 1\n    x: 2\n  - {w: {z: 1, z: 2}}\n")
    assert loaded.problems == (duplicate(3, "x"), duplicate(4, "z"))


def test_keys_with_the_same_text_are_duplicates() -> None:
    assert load(b"1: a\n'1': b\n").problems == (duplicate(2, "1"),)


def test_number_of_reported_duplicates_is_limited() -> None:
    *named, last = load(b"a: 1\n" * 5000).problems
    assert (len(named), last) == (50, "and 4949 more such problems")


def test_merged_keys_are_no_duplicates() -> None:
    assert load(b"a: &a {x: 1}\nb: {<<: *a, x: 2}\n").problems == ()


def test_duplicates_are_merged_into_one_problem() -> None:
    assert merge_problems((duplicate(1, "a"), duplicate(2, "b"), 'unknown field "c"')) == [
        f"yaml: unmarshal errors:\n  {duplicate(1, 'a')}\n  {duplicate(2, 'b')}",
        'unknown field "c"',
    ]
    assert merge_problems(('unknown field "c"',)) == ['unknown field "c"']

"""Keys that are there twice: the last wins, and each is reported by the line of its value."""

from gateway.wire.yaml import load, merge_problems


def duplicate(line: int, key: str) -> str:
    return f'line {line}: key "{key}" already set in map'


def test_reported_in_document_order_with_the_last_value() -> None:
    loaded = load(b"a:\n  b:\n  - c: 1\n    c: 2\nkind: x\nkind: z\na: 5\n")
    assert loaded.value == {"a": 5, "kind": "z"}
    assert loaded.problems == (duplicate(4, "c"), duplicate(6, "kind"), duplicate(7, "a"))


def test_what_is_inside_comes_before_what_is_around_it() -> None:
    loaded = load(b"a: 1\na:\n  b: 1\n  b: 2\n")
    assert loaded.problems == (duplicate(4, "b"), duplicate(3, "a"))


def test_through_lists() -> None:
    loaded = load(b"- a\n- - x: 1\n    x: 2\n  - {w: {z: 1, z: 2}}\n")
    assert loaded.problems == (duplicate(3, "x"), duplicate(4, "z"))


def test_keys_that_become_the_same_text() -> None:
    assert load(b"1: a\n'1': b\n").problems == (duplicate(2, "1"),)


def test_not_without_end() -> None:
    *named, last = load(b"a: 1\n" * 5000).problems
    assert (len(named), last) == (50, "and 4949 more such problems")


def test_merged_keys_are_no_duplicates() -> None:
    assert load(b"a: &a {x: 1}\nb: {<<: *a, x: 2}\n").problems == ()


def test_refused_as_one_beside_unknown_fields() -> None:
    assert merge_problems((duplicate(1, "a"), duplicate(2, "b"), 'unknown field "c"')) == [
        f"yaml: unmarshal errors:\n  {duplicate(1, 'a')}\n  {duplicate(2, 'b')}",
        'unknown field "c"',
    ]
    assert merge_problems(('unknown field "c"',)) == ['unknown field "c"']

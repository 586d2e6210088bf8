"""Keys that are there twice: the last wins, and each is reported by its path."""

from gateway.wire.yaml import load


def test_reported_in_document_order_with_the_last_value() -> None:
    loaded = load(b"a:\n  b:\n  - c: 1\n    c: 2\nkind: x\nkind: z\na: 5\n")
    assert loaded.value == {"a": 5, "kind": "z"}
    assert loaded.problems == ('duplicate field "a.b[0].c"', 'duplicate field "kind"', 'duplicate field "a"')


def test_paths_through_lists() -> None:
    loaded = load(b"- a\n- - x: 1\n    x: 2\n  - {w: {z: 1, z: 2}}\n")
    assert loaded.problems == ('duplicate field "[1][0].x"', 'duplicate field "[1][1].w.z"')


def test_keys_that_become_the_same_text() -> None:
    assert load(b"1: a\n'1': b\n").problems == ('duplicate field "1"',)


def test_the_same_field_is_reported_once_and_not_without_end() -> None:
    assert load(b"a: 1\n" * 5000).problems == ('duplicate field "a"',)
    many = b"".join(b"k%d: 1\n" % (number // 2) for number in range(5000))
    assert len(load(many).problems) == 100


def test_merged_keys_are_no_duplicates() -> None:
    assert load(b"a: &a {x: 1}\nb: {<<: *a, x: 2}\n").problems == ()

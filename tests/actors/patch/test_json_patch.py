"""JSON patch against the examples of RFC 6902, its leniencies and its limits."""

from copy import deepcopy

import pytest

from rewound.actors.patch.errors import MalformedPatch, PatchDoesNotFit, PatchTooLarge
from rewound.actors.patch.json_patch import MAX_OPERATIONS, apply_json_patch, parse_json_patch
from rewound.actors.runtime.time_limit import run_limited
from tests.cases import cases

EXAMPLES = [
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    (
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    (
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"},
    ),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    (
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
    ({"a": 1}, [{"op": "replace", "path": "", "value": [1]}], [1]),
    ({"a": {"b": [1]}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": [1]}, "c": {"b": [1]}}),
    ({"a": {}}, [{"op": "replace", "path": "/a/new", "value": 1}], {"a": {"new": 1}}),
    ({"a": {}}, [{"op": "test", "path": "/a/none", "value": None}], {"a": {}}),
    ({"n": 1}, [{"op": "test", "path": "/n", "value": 1.0}], {"n": 1}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
    ({"a": [1, 2]}, [{"op": "replace", "path": "/a/-2", "value": 3}], {"a": [3, 2]}),
    ({"a": [1, 2]}, [{"op": "add", "path": "/a/-1", "value": 3}], {"a": [1, 2, 3]}),
    ({"a": [1, 2]}, [{"op": "add", "path": "/a/01", "value": 3}], {"a": [1, 3, 2]}),
    ({"a": [{}]}, [{"op": "add", "path": "/a/-1/b", "value": 3}], {"a": [{"b": 3}]}),
    ({"a": 1}, [{"op": "add", "path": "/b"}], {"a": 1, "b": None}),
    ({"a": {}}, [{"op": "copy", "from": "/a/none", "path": "/b"}], {"a": {}, "b": None}),
    ({"a": {"b": 1}}, [{"op": "add", "path": "x/a/b", "value": 2}], {"a": {"b": 2}}),
]


@cases(("document", "patch", "expected"), EXAMPLES)
def test_patches_that_apply(document, patch, expected):
    assert apply_json_patch(deepcopy(document), parse_json_patch(patch)) == expected


@cases(
    "operation",
    [
        {"op": "test", "path": "/s", "value": "other"},
        {"op": "test", "path": "/b", "value": 1},
        {"op": "test", "path": "/l/7", "value": None},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/s/x", "value": 1},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "x", "value": 1},
        {"op": "add", "value": 1},
        {"op": "replace", "path": "/l/2", "value": 1},
        {"op": "replace", "path": "/none/deep", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/l/2"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/l/-3"},
        {"op": "add", "path": "/l/-4", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "copy", "from": "", "path": "/x"},
        {"op": "copy", "from": "/l/2", "path": "/x"},
        {"op": "move", "from": "/none", "path": "/x"},
        {"op": "copy", "path": "/x"},
        {"op": "merge", "path": "/s", "value": 1},
        {"path": "/s", "value": 1},
    ],
)
def test_patches_that_do_not_apply(operation):
    document = {"s": "word", "b": True, "l": [1, 2]}
    with pytest.raises(PatchDoesNotFit):
        apply_json_patch(document, parse_json_patch([operation]))


# A.8, A.9, A.12 and A.15 of the RFC.
FAILURES = [
    ({"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}]),
    ({"foo": ["bar", "baz"]}, [{"op": "test", "path": "/foo/1", "value": "bar"}]),
    ({"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}]),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}]),
]


@cases(("document", "patch"), FAILURES)
def test_failures_of_the_rfc(document, patch):
    with pytest.raises(PatchDoesNotFit):
        apply_json_patch(document, parse_json_patch(patch))


@cases(
    "value",
    [
        {},
        "x",
        5,
        [1],
        [[]],
        [{"op": 5}],
        [{"op": "add", "path": 5, "value": 1}],
        [{"op": "copy", "from": []}],
    ],
)
def test_malformed_patches_are_refused(value):
    with pytest.raises(MalformedPatch):
        parse_json_patch(value)


def test_null_patch_changes_nothing():
    assert parse_json_patch(None) == []


def test_copies_do_not_share():
    patched = apply_json_patch(
        {"a": {"x": 1}},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "replace", "path": "/b/x", "value": 2}],
    )
    assert patched == {"a": {"x": 1}, "b": {"x": 2}}


def test_too_many_operations():
    parse_json_patch([{"op": "test", "path": ""}] * MAX_OPERATIONS)
    with pytest.raises(PatchTooLarge, match="10000, got 10001"):
        parse_json_patch([{"op": "test", "path": ""}] * (MAX_OPERATIONS + 1))


def test_doubling_copies_are_refused():
    patch = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
    with pytest.raises(PatchDoesNotFit, match="at most"):
        run_limited(apply_json_patch, {"a": ["x" * 100]}, patch)

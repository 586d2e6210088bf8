"""Patches that are made to be expensive are refused before they have cost much."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.actors.golang.json import DEEPEST
from rewound.actors.kinds.schema.fields import STRING, STRINGS, Field, ListOf, Struct
from rewound.actors.patch.errors import LONGEST_TEXT, MalformedPatch, PatchDoesNotFit, PatchTooLarge
from rewound.actors.patch.json_patch import MAX_OPERATIONS, apply_json_patch, parse_json_patch, same
from rewound.actors.patch.managed_fields import field_set
from rewound.actors.patch.managed_fields.field_set import Fields, union
from rewound.actors.patch.managed_fields.managers import (
    MAX_SENT,
    MAX_UPDATERS,
    Entry,
    encode_entries,
    read_entries,
)
from rewound.actors.patch.transform import MAX_BYTES, read_patch, transform
from rewound.actors.runtime.time_limit import NeedsThread, run_limited
from tests.cases import cases

ITEM = Struct("x.v1.Item", Field("name", STRING, 1))
THING = Struct(
    "x.v1.Thing",
    Field("items", ListOf(ITEM), 1, patch="merge", merge_key="name"),
    Field("words", STRINGS, 2, patch="merge"),
)


def in_thread(*patch: Any) -> Any:
    """`transform`, as a worker thread of the server calls it."""
    return run_limited(transform, *patch)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


@cases("format_", ["json", "merge", "strategic"])
@cases("depth", [DEEPEST + 1, 5_000, 500_000])
def test_nesting(format_: str, depth: int) -> None:
    text = b'{"a":' * depth + b"1" + b"}" * depth
    raw = b'[{"op":"add","path":"/a","value":' + text + b"}]" if format_ == "json" else text
    with pytest.raises(MalformedPatch, match="depth"):
        read_patch(format_, raw)


def test_nesting_step_by_step() -> None:
    grow = [
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a", "value": {}},
        {"op": "move", "from": "/b", "path": "/a/b"},
    ]
    with pytest.raises(PatchTooLarge, match="deep"):
        transform("json", {"a": {}}, grow * 1000, THING)


def test_a_document_copied_into_itself() -> None:
    with pytest.raises(PatchTooLarge):
        in_thread("json", {"a": {"b": "x"}}, [{"op": "copy", "from": "/a", "path": "/a/c"}] * 1000, THING)


def test_one_large_value_copied_many_times() -> None:
    patch = [{"op": "copy", "from": "/a", "path": f"/b{number}"} for number in range(MAX_OPERATIONS)]
    with pytest.raises(PatchDoesNotFit, match="copy at most 3145728 bytes"):
        in_thread("json", {"a": "x" * 1000}, patch, THING)


def test_patch_that_copies_much_moves_to_a_thread() -> None:
    patch = [{"op": "copy", "from": "/data", "path": f"/data/k{number}"} for number in range(40)]
    with pytest.raises(NeedsThread):
        transform("json", {"data": {"k": "x"}}, patch, THING)
    assert len(transform("json", {"data": {"k": "x"}}, patch[:10], THING)[0]["data"]) == 11


def test_a_copy_of_as_much_as_is_allowed() -> None:
    patch = [{"op": "copy", "from": "/a", "path": f"/b{number}"} for number in range(3)]
    assert len(in_thread("json", {"a": "x" * (1 << 20)}, patch[:2], THING)[0]) == 3
    with pytest.raises(PatchDoesNotFit):
        in_thread("json", {"a": "x" * (1 << 20)}, patch, THING)


@pytest.mark.parametrize(
    "operation", [{"op": "add", "path": "/a/0", "value": 1}, {"op": "remove", "path": "/a/0"}]
)
def test_a_long_list_moved_item_by_item(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchTooLarge, match="long lists"):
        apply_json_patch({"a": [0] * 100_000}, [operation] * MAX_OPERATIONS)


def test_a_short_list_may_be_filled_from_its_beginning() -> None:
    patch = [{"op": "add", "path": "/a/0", "value": 1}] * MAX_OPERATIONS
    assert len(apply_json_patch({"a": []}, patch)["a"]) == MAX_OPERATIONS


def test_the_limit_of_operations_is_that_of_the_api() -> None:
    assert MAX_OPERATIONS == 10_000
    with pytest.raises(PatchTooLarge):
        parse_json_patch([{"op": "test", "path": ""}] * 10_001)


def test_an_object_that_grows_patch_by_patch() -> None:
    document = {"a": "x" * (MAX_BYTES - 100)}
    assert transform("merge", dict(document), {"b": "x"}, THING)[0]["b"] == "x"
    with pytest.raises(PatchTooLarge, match="bytes"):
        transform("merge", document, {"b": "x" * 200}, THING)


def test_very_many_entries() -> None:
    """By hash, not by searching the list for each: a hundred thousand would take hours."""
    entries = [{"name": f"n{number}"} for number in range(70_000)]
    words = [f"w{number}" for number in range(70_000)]
    patch = {
        "items": entries[::-1],
        "$setElementOrder/items": entries[::-1],
        "$deleteFromPrimitiveList/words": words[1:],
    }
    patched, _ = transform("strategic", {"items": entries, "words": words}, patch, THING)
    assert (patched["items"][0], patched["words"]) == (entries[-1], words[:1])


def test_comparing_what_is_nested_deep() -> None:
    assert same(nested(100_000), nested(100_000))
    assert not same(nested(100_000), nested(99_999))


def test_a_field_that_is_repeated_often_is_one_problem() -> None:
    value, problems = read_patch("merge", b'{"a":{' + b",".join([b'"b":1'] * 100_000) + b"}}")
    assert value == {"a": {"b": 1}}
    assert problems == ('duplicate field "a.b"',)


def test_many_repeated_fields_are_counted() -> None:
    members = [b'"b%d":1' % number for number in range(10_000)]
    _, problems = read_patch("merge", b'{"a":{' + b",".join(members * 2) + b"}}")
    assert (len(problems), problems[-1]) == (51, "and 9950 more such problems")


def test_errors_are_short_whatever_they_are_about() -> None:
    long = "x" * 1_000_000
    for format_, patch, error in (
        ("json", [{"op": "remove", "path": f"/{long}"}], PatchDoesNotFit),
        ("json", [{"op": long, "path": ""}], PatchDoesNotFit),
        ("strategic", {"items": [{long: 1}]}, PatchDoesNotFit),
        ("strategic", {"$patch": long}, MalformedPatch),
        ("strategic", {"$retainKeys": [], long: 1}, MalformedPatch),
    ):
        with pytest.raises(error) as caught:
            transform(format_, {"items": []}, patch, THING)
        assert len(str(caught.value)) <= LONGEST_TEXT + 100


def test_the_patch_is_left_as_it_was_sent() -> None:
    patch = [{"op": "add", "path": "/a", "value": {}}, {"op": "add", "path": "/a/b", "value": [1]}]
    before = orjson.dumps(patch)
    apply_json_patch({}, patch)
    assert orjson.dumps(patch) == before


def test_too_many_sent_managers_are_ignored() -> None:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
    sent = [{**entry, "manager": f"m{number}"} for number in range(MAX_SENT + 1)]
    assert read_entries(sent) is None
    assert len(read_entries(sent[1:]) or ()) == MAX_SENT


def test_merging_many_managers_copies_each_field_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = 0

    def counted(one: Fields, other: Fields) -> Fields:
        nonlocal copied
        united = union(one, other)
        copied += len(united)
        return united

    monkeypatch.setattr(field_set, "union", counted)
    entries = [
        Entry(f"m{number}", "Update", "v1", f"{number:03}", {f"f:{number:03}": {}})
        for number in range(MAX_SENT)
    ]
    merged = encode_entries(entries)
    assert len(merged) == MAX_UPDATERS
    assert merged[0]["fieldsV1"] == {f"f:{number:03}": {} for number in range(MAX_SENT - MAX_UPDATERS + 1)}
    assert 0 < copied < 10 * MAX_SENT

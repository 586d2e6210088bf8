"""Definitions that attack the server are refused or bounded."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

from rewound.actors.errors import DefaultsTooLarge
from rewound.actors.kinds.structural import validation
from rewound.actors.kinds.structural.coercion import MOST_CREATED, DefaultSizes
from rewound.actors.kinds.structural.compile import compile_schema
from rewound.actors.kinds.structural.definition_checks import check_schema
from rewound.actors.kinds.structural.schema_node import Node, parse_schema
from rewound.actors.kinds.structural.validation import compile_list_types
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.time_limit import NeedsThread, TookTooLong, run_limited
from tests.actors.kinds.operations import counted, excess_of, operations
from tests.cases import cases

from .schemas import API_VERSION, KIND, TEXT, WHOLE, compiled, decode, errors_of, list_of, problems, record


def nested(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "object", "properties": {}}
    for _ in range(levels):
        node = record(a=node)
    return node


def test_the_deepest_schema_that_a_request_can_have() -> None:
    schema = nested(95)
    assert errors_of(schema) == []
    value: dict[str, Any] = {"b": 1}
    for _ in range(95):
        value = {"a": value}
    found = decode(compiled(schema), **value)
    assert found.problems == (f'unknown field "{"a." * 95}b"',)


def test_nested_branches_are_checked_once_each() -> None:
    """Two branches on each of many levels: a walk that repeated a branch would never end."""
    branch: dict[str, Any] = {"minimum": 1}
    for _ in range(40):
        branch = {"oneOf": [branch, {"maximum": -1}]}
    made = compiled(record(v={**WHOLE, **branch}))
    assert problems(made, {"v": 5}) == []
    assert len(problems(made, {"v": 0})) == 2


def test_patterns_take_linear_time() -> None:
    made = compiled(record(v={**TEXT, "pattern": "^(a+)+$"}))
    assert run_limited(problems, made, {"v": "a" * 50_000}) == []
    assert len(run_limited(problems, made, {"v": "a" * 50_000 + "!"})) == 1
    with pytest.raises(NeedsThread):
        problems(made, {"v": "a" * 50_000})


@pytest.mark.parametrize("more", [{"pattern": r"\pL{40}"}, {"pattern": "a" * 600}, {"format": "hostname"}])
def test_patterns_that_take_long_to_compile_need_a_thread(more: dict[str, Any]) -> None:
    made = compiled(record(v={**TEXT, **more}))
    with pytest.raises(NeedsThread):
        collect(made.validate, {"v": "a"})
    assert len(run_limited(problems, made, {"v": "a b"})) == 1


@pytest.mark.parametrize("pattern", ["((a{500}){500}){500}", "a{1001}"])
def test_patterns_that_would_take_much_memory_are_refused(pattern: str) -> None:
    (found,) = errors_of(record(v={**TEXT, "pattern": pattern}))
    assert "must be a valid regular expression" in found and len(found) < 8192


def test_a_schema_of_megabytes_is_checked_within_its_time() -> None:
    schema = record(**{f"property-{number}": {**TEXT, "maxLength": 9} for number in range(20_000)})
    with pytest.raises(TookTooLong):
        run_limited(errors_of, schema, seconds=0.01)


def test_long_enums_are_looked_up() -> None:
    made = compiled(
        record(v={"type": "array", "items": {**TEXT, "enum": [f"v{one}" for one in range(20_000)]}})
    )
    assert problems(made, {"v": ["v19999"] * 500}) == []


def test_many_branches_for_one_value_need_a_thread() -> None:
    branches = [{"enum": [number]} for number in range(2000)]
    made = compiled(record(v={"type": "array", "items": {**WHOLE, "anyOf": branches}}))
    with pytest.raises(NeedsThread):
        problems(made, {"v": [1999]})
    assert run_limited(problems, made, {"v": [1999]}) == []


def test_a_schema_with_many_errors_reports_the_first_thousand() -> None:
    schema = record(**{f"p{number}": {"description": "no type"} for number in range(3000)})
    assert 1000 <= len(errors_of(schema)) <= 1100


def test_reading_a_pattern_tries_nothing_twice() -> None:
    """Each of these classes can match in two ways, until no match is found."""
    assert errors_of(record(v={**TEXT, "pattern": "[]a]" * 2000})) == []


def test_patterns_take_bounded_memory_together() -> None:
    properties = {f"p{number}": {**TEXT, "pattern": f"^a{number}$"} for number in range(2001)}
    (found,) = errors_of(record(**properties))
    assert found == (
        "s.properties[p2000].pattern: Forbidden: the schema may have at most 2000 different patterns, and fewer that "
        "are large"
    )
    same = {name: {**TEXT, "pattern": "^a$"} for name in properties}
    assert errors_of(record(**same)) == []


def test_long_rules_are_checked_within_their_time() -> None:
    long = "(" * 20 + " && ".join(["self.a == 1"] * 5000) + ")" * 20
    schema = record(spec={**record(a=WHOLE), "x-cluster-validations": [{"rule": long}]})
    with pytest.raises(NeedsThread):
        collect(check_schema, "s", schema, names=CLUSTER)


def test_rules_in_the_thousands_are_checked_within_their_time() -> None:
    rules = [{"rule": f"self.a > {number}"} for number in range(5000)]
    schema = record(spec={**record(a=WHOLE), "x-cluster-validations": rules})
    with pytest.raises(TookTooLong):
        run_limited(collect, partial(check_schema, names=CLUSTER), "s", schema, seconds=0.05)


def test_the_first_object_of_a_kind_with_rules_or_a_large_schema_needs_a_thread() -> None:
    ruled = record(spec={**record(a=WHOLE), "x-cluster-validations": [{"rule": "self.a > 0"}]})
    large = record(**{f"p{number}": TEXT for number in range(200)})
    for schema in (ruled, large):
        made = compile_schema(schema, api_version=API_VERSION, kind=KIND, names=CLUSTER)
        with pytest.raises(NeedsThread):
            collect(made.validate, {"spec": {"a": 1}})
        assert run_limited(collect, made.validate, {"spec": {"a": 1}}) == []
        assert collect(made.validate, {"spec": {"a": 1}}) == []


ATOMIC = {**record(key=TEXT, part=TEXT), "x-cluster-map-type": "atomic"}
UNIQUE: dict[str, dict[str, Any]] = {
    "texts": {"x-cluster-list-type": "set", "items": TEXT},
    "objects": {"x-cluster-list-type": "set", "items": ATOMIC},
    "one-key": {"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["key"], "items": ATOMIC},
    "two-keys": {"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["key", "part"], "items": ATOMIC},
}


@cases("alike", [False, True], ids=["different", "alike"])
@cases("name", UNIQUE)
def test_looking_for_equal_items_takes_linear_time(name: str, alike: bool) -> None:
    root = parse_schema(record(v={"type": "array", **UNIQUE[name]}), CLUSTER)
    check = compile_list_types(root)
    assert check is not None

    def cost(count: int) -> int:
        texts = ["a" if alike else f"a{number}" for number in range(count)]
        items = texts if name == "texts" else [{"key": one, "part": "b"} for one in texts]
        document = {"v": counted(items) if name != "objects" else items}
        return operations(lambda: collect(check, document, ""))

    assert excess_of(cost, 60) < 1  # comparing each item with those before it gives 3


def test_objects_compile_only_the_part_of_a_schema_that_they_use(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[Node] = []
    original = validation.compile_validity

    def recorded(node: Node) -> validation.IsValid:
        nodes.append(node)
        return original(node)

    monkeypatch.setattr(validation, "compile_validity", recorded)
    made = compiled(record(**{f"p{number}": record(a=WHOLE, b=TEXT) for number in range(500)}))
    assert run_limited(problems, made, {"p7": {"a": 1}}) == []
    assert len(nodes) == 2  # p7 and its a
    assert run_limited(problems, made, {"p7": {"a": 2}, "p8": {"b": "x"}}) == []
    assert len(nodes) == 4


def filled(levels: int, width: int) -> dict[str, Any]:
    """A schema whose default has this many levels of lists, with this many items each."""
    schema: dict[str, Any] = {**TEXT, "default": "x"}
    for _ in range(levels):
        schema = list_of({**record(a=schema), "default": {}}, default=[{}] * width)
    return schema


def test_default_that_multiplies_is_refused_without_making_it() -> None:
    (found,) = errors_of(record(a=filled(40, 10)))
    place = "s.properties[a]" + ".items.properties[a]" * 35
    assert found.startswith(
        f"{place}.default: Forbidden: with the defaults inside it: must have at most 1048576"
    )
    (found,) = errors_of(record(**{f"a{number}": filled(2, 100) for number in range(20)}))
    assert found.startswith(
        "s: Forbidden: the defaults of an empty object together: must have at most 1048576"
    )
    assert errors_of(record(a=filled(2, 100))) == []


@cases(
    "node",
    [
        {**TEXT, "default": "abc"},
        filled(3, 5),
        {**record(a=filled(1, 7), b={**WHOLE, "default": 5}), "default": {"b": 7}},
        {"type": "object", "additionalProperties": filled(1, 3), "default": {"x": [{}, {}], "y": []}},
    ],
)
def test_sizes_of_defaults_are_those_of_what_is_made(node: dict[str, Any]) -> None:
    made = len(orjson.dumps(decode(compiled(record(v=node))).object["v"]))
    assert made <= DefaultSizes().default(parse_schema(node, CLUSTER)) <= 3 * made + 10


def test_defaults_of_many_items_end_when_an_object_has_become_too_large() -> None:
    made = compiled(
        record(items=list_of(record(**{f"a{number}": {**TEXT, "default": "x" * 9} for number in range(50)})))
    )
    items = [{}] * 500
    assert len(decode(made, items=items).object["items"][499]) == 50
    for _ in range(2):
        with pytest.raises(DefaultsTooLarge):
            decode(made, items=items * 10)
    stored = {"metadata": {"name": "a"}, "items": items * 10}
    assert made.prune_and_default(stored) == stored, "shown without defaults: what is stored can be deleted"
    assert len(decode(made, items=items).object["items"][0]) == 50


def test_too_large_default_of_an_earlier_release_is_not_made() -> None:
    """Stored definitions are not checked again."""
    schema = record(a=filled(12, 10), b={**TEXT, "default": "x"})
    made = compile_schema(schema, api_version=API_VERSION, kind=KIND, names=CLUSTER)
    with pytest.raises(DefaultsTooLarge):
        decode(made)
    assert decode(made, a=[]).object["b"] == "x"
    assert MOST_CREATED < 10**12

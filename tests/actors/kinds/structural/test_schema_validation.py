"""Validation of custom resources against their schema, with the texts of v1.25."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rewound.actors.kinds.structural.schema_node import parse_schema
from rewound.actors.kinds.structural.validation import compile_validity, validate
from rewound.actors.names import NAMES
from tests.cases import cases

from .schemas import NUMBER, TEXT, WHOLE, compiled, list_of, problems, record


@cases(
    ("node", "value", "wrong"),
    [
        (WHOLE, "x", ['v: Invalid value: "string": v in body must be of type integer: "string"']),
        (WHOLE, True, ['v: Invalid value: "boolean": v in body must be of type integer: "boolean"']),
        (WHOLE, 1.0, []),
        (NUMBER, 1, []),
        (TEXT, None, ['v: Invalid value: "null": v in body must be of type string: "null"']),
        ({**TEXT, "nullable": True}, None, []),
        (
            {"x-cluster-int-or-string": True},
            1.5,
            ['v: Invalid value: "number": v in body must be of type integer,string: "number"'],
        ),
        (
            {**TEXT, "pattern": "^[a-z]+$"},
            "A1",
            ["v: Invalid value: \"A1\": v in body should match '^[a-z]+$'"],
        ),
        ({**TEXT, "enum": ["r", "g"]}, "b", ['v: Unsupported value: "b": supported values: "r", "g"']),
        ({**WHOLE, "enum": [1, 2]}, 3, ['v: Unsupported value: 3: supported values: "1", "2"']),
        ({**TEXT, "minLength": 2}, "a", ['v: Invalid value: "a": v in body should be at least 2 chars long']),
        ({**TEXT, "maxLength": 3}, "äöüß", ["v: Too long: may not be longer than 3"]),
        (
            {**WHOLE, "maximum": 10},
            50,
            ["v: Invalid value: 50: v in body should be less than or equal to 10"],
        ),
        (
            {**NUMBER, "minimum": 0.5, "exclusiveMinimum": True},
            0.5,
            ["v: Invalid value: 0.5: v in body should be greater than 0.5"],
        ),
        ({**WHOLE, "multipleOf": 2}, 3, ["v: Invalid value: 3: v in body should be a multiple of 2"]),
        (list_of(TEXT, minItems=1), [], ["v: Invalid value: 0: v in body should have at least 1 items"]),
        (list_of(TEXT, maxItems=1), ["a", "b"], ["v: Too many: 2: must have at most 1 items"]),
        (
            list_of(WHOLE),
            [1, "x"],
            ['v[1]: Invalid value: "string": v[1] in body must be of type integer: "string"'],
        ),
        ({**record(a=TEXT), "required": ["a"]}, {}, ["v.a: Required value"]),
        (
            {"type": "object", "additionalProperties": WHOLE, "maxProperties": 1},
            {"a": 1, "b": 1},
            ["v: Too many: 2: must have at most 1 items"],
        ),
        (
            {"type": "object", "additionalProperties": WHOLE},
            {"k": "x"},
            ['v.k: Invalid value: "string": v.k in body must be of type integer: "string"'],
        ),
        (
            {**TEXT, "format": "date-time"},
            "yesterday",
            ['v: Invalid value: "yesterday": v in body must be of type date-time: "yesterday"'],
        ),
        ({**TEXT, "format": "my-own"}, "anything", []),
        (
            {**record(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                '<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found none valid',
                "v.a: Required value",
            ],
        ),
        (
            {**record(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "", "b": ""},
            [
                '<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). '
                "Found 2 valid alternatives"
            ],
        ),
        (
            {**TEXT, "allOf": [{"minLength": 2}]},
            "x",
            [
                'v: Invalid value: "x": v in body should be at least 2 chars long',
                '<nil>: Invalid value: "": "v" must validate all the schemas (allOf). None validated',
            ],
        ),
        (
            {**WHOLE, "anyOf": [{"minimum": 5}, {"maximum": 1}]},
            3,
            [
                '<nil>: Invalid value: "": "v" must validate at least one schema (anyOf)',
                "v: Invalid value: 3: v in body should be greater than or equal to 5",
            ],
        ),
        (
            {**WHOLE, "not": {"minimum": 5}},
            7,
            ['<nil>: Invalid value: "": "v" must not validate the schema (not)'],
        ),
    ],
)
def test_texts(node: dict[str, Any], value: Any, wrong: list[str]) -> None:
    assert problems(compiled(record(v=node)), {"v": value}) == wrong


def test_names_can_be_restricted() -> None:
    kind = compiled(record(metadata=record(name={**TEXT, "maxLength": 3})))
    assert problems(kind, {"metadata": {"name": "long"}}) == [
        "metadata.name: Too long: may not be longer than 3"
    ]


KEYED = list_of(
    {**record(name=TEXT, proto={**TEXT, "default": "TCP"}), "required": ["name"]},
    **{"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["name", "proto"]},
)


def test_items_with_equal_keys() -> None:
    kind = compiled(record(l=KEYED))
    twice = {"l": [{"name": "a", "proto": "T"}] * 3}
    wrong = 'l[1]: Duplicate value: map[string]interface {}{"name":"a", "proto":"T"}'
    assert problems(kind, twice) == [wrong]
    assert problems(kind, twice, {"l": []}) == [wrong]
    assert problems(kind, twice, twice) == []  # it had them already


def test_items_of_a_set_are_unique() -> None:
    kind = compiled(record(s=list_of(TEXT, **{"x-cluster-list-type": "set"})))
    assert problems(kind, {"s": ["a", "b", "a", "a"]}) == ['s[2]: Duplicate value: "a"']


def test_embedded_objects_need_a_type() -> None:
    node = {"type": "object", "x-cluster-embedded-resource": True, "x-cluster-preserve-unknown-fields": True}
    kind = compiled(record(e=node))
    assert problems(kind, {"e": {"kind": "p_d", "metadata": {"labels": {"a b": ""}}}}) == [
        "e.apiVersion: Required value: must not be empty",
        'e.kind: Invalid value: "p_d": may have mixed case, but should otherwise match: a DNS-1035 label must '
        "consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
        "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
        "'[a-z]([-a-z0-9]*[a-z0-9])?')",
        "e.metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' "
        "or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.sampled_from([0.5, 2.0, 4.0])
    | st.text("ab1", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
LEAVES: list[dict[str, Any]] = [
    {**TEXT, "minLength": 1, "maxLength": 3, "pattern": "^a"},
    {**TEXT, "nullable": True, "enum": ["a", "b"]},
    {**TEXT, "format": "date"},
    {**WHOLE, "minimum": 1.5, "maximum": 6, "exclusiveMaximum": True},
    {**NUMBER, "multipleOf": 0.5},
    {**WHOLE, "enum": [1, 2]},
    {"x-cluster-int-or-string": True},
    {"x-cluster-preserve-unknown-fields": True},
    {"type": "boolean", "nullable": True},
    {**WHOLE, "oneOf": [{"minimum": 2}, {"maximum": 3}], "not": {"enum": [4]}},
    {**NUMBER, "anyOf": [{"minimum": 5}, {"multipleOf": 2}], "allOf": [{"maximum": 8}]},
]
SCHEMAS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.builds(lambda items, most: list_of(items, maxItems=most), inner, st.integers(0, 2))
        | st.builds(lambda a, b: {**record(a=a, b=b), "required": ["a"]}, inner, inner)
        | st.builds(
            lambda values: {"type": "object", "additionalProperties": values, "minProperties": 1}, inner
        )
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, VALUES)
def test_fast_and_exact_validation_agree(schema: dict[str, Any], value: Any) -> None:
    node = parse_schema(schema, NAMES["cluster"])
    assert compile_validity(node)(value) == (not validate(node, value))

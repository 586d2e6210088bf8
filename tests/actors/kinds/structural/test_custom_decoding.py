"""Decoding of custom resources: pruning, defaulting, null, and what is reported."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewound.actors.errors import Invalid
from rewound.actors.kinds.schema import pydantic_decoder
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.structural.compile import _metadata_decoder

from .schemas import API_VERSION, KIND, TEXT, WHOLE, compiled, decode, decode_text, list_of, record

ANY = {"x-cluster-preserve-unknown-fields": True}
SIMPLE = record(spec=record(size=WHOLE, text=TEXT))


def object_of(schema: dict[str, Any], **members: Any) -> dict[str, Any]:
    found = decode(compiled(schema), **members).object
    assert found.pop("metadata") == {"name": "a"}
    return found


def test_unknown_fields_are_dropped_and_reported_by_name() -> None:
    found = decode(compiled(SIMPLE), spec={"size": 1, "bogus": 2}, other={"x": 1})
    assert found.object == {"metadata": {"name": "a"}, "spec": {"size": 1}}
    assert found.problems == ('unknown field "other"', 'unknown field "spec.bogus"')


def test_duplicate_fields_are_reported_before_unknown_ones() -> None:
    found = decode_text(compiled(SIMPLE), b'"spec":{"size":1,"size":2,"a":0}')
    assert found.object["spec"] == {"size": 2}
    assert found.problems == ('duplicate field "spec.size"', 'unknown field "spec.a"')


def test_unknown_metadata_is_reported_first() -> None:
    raw = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "a", "z": 1, "colour": 1}, "b": 1}
    found = compiled(SIMPLE).schema.decode_json(orjson.dumps(raw))
    assert found.object == {"metadata": {"name": "a"}}
    assert found.problems == (
        'unknown field "metadata.colour"',
        'unknown field "metadata.z"',
        'unknown field "b"',
    )


def test_items_and_values_are_pruned() -> None:
    schema = record(l=list_of(record(x=WHOLE)), m={"type": "object", "additionalProperties": record(x=WHOLE)})
    found = object_of(schema, l=[{"x": 1, "y": 2}, 3], m={"k": {"x": 1, "z": 1}, "n": 2})
    assert found == {"l": [{"x": 1}, 3], "m": {"k": {"x": 1}, "n": 2}}


def test_preserved_fields_stay_as_they_are() -> None:
    schema = record(spec={**record(known=record(x=WHOLE)), **ANY})
    found = object_of(schema, spec={"known": {"x": 1, "y": 2}, "free": {"a": [{"b": None}]}})
    assert found == {"spec": {"known": {"x": 1}, "free": {"a": [{"b": None}]}}}


def test_maps_of_anything_keep_scalars_only() -> None:
    schema = record(spec={"type": "object", "additionalProperties": True})
    assert object_of(schema, spec={"a": 1, "b": {"c": 1}}) == {"spec": {"a": 1, "b": {}}}


def test_null_is_absent_where_it_is_not_allowed() -> None:
    schema = record(
        spec=record(
            a={**TEXT, "default": "x"},
            b={**TEXT, "nullable": True, "default": "y"},
            c=TEXT,
            d={**TEXT, "nullable": True},
        )
    )
    assert object_of(schema, spec={"a": None, "b": None, "c": None, "d": None}) == {
        "spec": {"a": "x", "b": None, "d": None}
    }
    assert object_of(schema, spec={}) == {"spec": {"a": "x", "b": "y"}}


def test_defaults_inside_defaults() -> None:
    inner = {**record(x={**WHOLE, "default": 1}, y=WHOLE), "default": {"y": 2}}
    found = object_of(record(spec=record(inner=inner, l=list_of(inner))), spec={"l": [{}, None]})
    assert found == {"spec": {"inner": {"y": 2, "x": 1}, "l": [{"x": 1}, {"y": 2, "x": 1}]}}


def test_defaults_are_not_shared() -> None:
    kind = compiled(record(spec={**record(), **ANY, "default": {"a": [1]}}))
    first, second = decode(kind).object, decode(kind).object
    first["spec"]["a"].append(2)
    assert second["spec"] == {"a": [1]}


def test_numbers_are_kept_as_sent_and_stored_like_go() -> None:
    kind = compiled(record(spec=ANY))
    found = decode_text(kind, b'"spec":[1.0,1,9223372036854775808,1.5,-0.0]').object
    assert [type(one) for one in found["spec"]] == [float, int, float, float, float]
    kind.canonicalize(found)
    assert [type(one) for one in found["spec"]] == [int, int, float, float, int]


@pytest.mark.parametrize("missing", ["kind", "apiVersion"])
def test_the_type_is_required(missing: str) -> None:
    raw = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "a"}}
    del raw[missing]
    with pytest.raises(NotDecodable):
        compiled(SIMPLE).schema.decode_json(orjson.dumps(raw))


def test_another_kind_is_invalid() -> None:
    raw = {"apiVersion": API_VERSION, "kind": "Gadget", "metadata": {"name": "a"}}
    with pytest.raises(Invalid) as refused:
        compiled(SIMPLE).schema.decode_json(orjson.dumps(raw))
    assert refused.value.message == (
        'Gadget.stable.example.io "a" is invalid: kind: Invalid value: "Gadget": must be Thing'
    )


def test_metadata_of_the_wrong_type_is_refused() -> None:
    raw = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"labels": {"a": 1}}}
    with pytest.raises(NotDecodable) as refused:
        compiled(SIMPLE).schema.decode_json(orjson.dumps(raw))
    assert str(refused.value) == (
        'Thing in version "v1" cannot be handled as a Thing: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


def test_embedded_metadata_is_decoded() -> None:
    schema = record(e={"type": "object", "x-cluster-embedded-resource": True, **ANY})
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "x": 1}, "spec": {"a": 1}}
    found = decode(compiled(schema), e=inner)
    assert found.object["e"] == {**inner, "metadata": {"name": "p"}}
    assert found.problems == ('unknown field "e.metadata.x"',)


def test_documents_that_nest_too_deep_are_refused() -> None:
    with pytest.raises(NotDecodable, match="exceeded max depth"):
        decode_text(compiled(record(spec=ANY)), b'"spec":' + b"[" * 5000 + b"]" * 5000)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)
NESTED = record(
    a=record(a={**TEXT, "default": "x"}, b={**record(c={**WHOLE, "default": 1}), "default": {}}),
    b=list_of({**record(a=WHOLE, b={**TEXT, "nullable": True}), "default": {"a": 1}}),
    c={"type": "object", "additionalProperties": record(a={**WHOLE, "default": 3})},
    d={**record(a=record(b=TEXT)), **ANY},
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from("abcde"), VALUES, max_size=5))
def test_pruning_and_defaulting_twice_is_the_same_as_once(members: dict[str, Any]) -> None:
    kind = compiled(NESTED)
    once = decode(kind, **members).object
    before = orjson.dumps(once)
    assert kind.prune_and_default(once) == once
    assert orjson.dumps(once) == before
    again = kind.schema.decode_object(once)
    assert again.object == once and again.problems == ()


def test_metadata_is_decoded_the_same_while_a_start_postpones_pydantic() -> None:
    metadata = {"name": "a", "labels": {"b": "1", "a": "2"}, "finalizers": ["example.io/x"]}
    raw = orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"size": 1}})
    schema = compiled(SIMPLE).schema
    usual = schema.decode_json(raw)
    _metadata_decoder.cache_clear()
    with pydantic_decoder.postponed():
        found = schema.decode_json(raw)
    assert _metadata_decoder.cache_info().currsize == 0, "it was compiled"
    assert orjson.dumps([*found]) == orjson.dumps([*usual])

"""Every kind, encoded in protobuf and decoded again, is unchanged."""

from __future__ import annotations

import orjson

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.gateway.wire.protobuf import ProtobufEncoder, read_object
from tests.actors.kinds.registries import registry_of
from tests.actors.object_store import Document
from tests.cases import cases
from tests.gateway.describe.specimens import key, specimens

REGISTRY = registry_of(CLUSTER)
ENCODER = ProtobufEncoder(REGISTRY, CLUSTER)
SPECIMENS = specimens(CLUSTER)
DEFINITIONS = {key(one): one for one in REGISTRY.current.definitions if key(one) in SPECIMENS}


@cases("definition", DEFINITIONS.values(), ids=DEFINITIONS.keys())
def test_kind_survives_encoding_and_decoding(definition: Definition) -> None:
    document = SPECIMENS[key(definition)]
    schema = definition.schema
    made = schema.decode_object(document).object
    returned = {"kind": definition.kind, "apiVersion": definition.api_version, **made}
    raw = ENCODER.from_json(orjson.dumps(returned))
    assert raw is not None
    body = read_object(definition.fields, raw, schema.check_type)
    assert body.problems == ()
    read = schema.decode_object(body.object)
    assert read.problems == ()
    assert without_types(read.object) == without_types(made)


@cases(
    ("kind", "part", "sent", "read"),
    [
        ("SubjectAccessReview", "spec", {"extra": {"a": None, "b": ["x"]}}, {"extra": {"a": [], "b": ["x"]}}),
        ("PodDisruptionBudget", "status", {"disruptedPods": {"a": None}}, {"disruptedPods": {"a": None}}),
    ],
)
def test_null_in_a_map_is_an_empty_message(kind: str, part: str, sent: Document, read: Document) -> None:
    definition = next(one for one in REGISTRY.current.definitions if one.kind == kind)
    document = {"kind": kind, "apiVersion": definition.api_version, "metadata": {}, part: sent}
    raw = ENCODER.from_json(orjson.dumps(document))
    assert raw is not None
    found = read_object(definition.fields, raw, definition.schema.check_type).object[part]
    assert {name: found[name] for name in read} == read


def without_types(value: object) -> object:
    """Without kind and apiVersion of nested objects, which protobuf does not encode."""
    if isinstance(value, list):
        return [without_types(one) for one in value]
    if not isinstance(value, dict):
        return value
    hidden = {"kind", "apiVersion"} if {"metadata", "kind"} <= value.keys() else set()
    return {name: without_types(one) for name, one in value.items() if name not in hidden}


def test_meta_types_have_the_group_of_the_dialect() -> None:
    encoder = ProtobufEncoder(registry_of(KUBERNETES), KUBERNETES)
    group = KUBERNETES.group("meta")
    partial = {"kind": "PartialObjectMetadata", "apiVersion": f"{group}/v1", "metadata": {"name": "a"}}
    raw = encoder.from_json(orjson.dumps(partial))
    assert raw is not None
    assert group.encode() in raw

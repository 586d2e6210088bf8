"""The pydantic decoder returns an object only where the exact decoder returns the same without problems."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import Decoded, NotDecodable
from rewound.actors.names import CLUSTER
from tests.actors.kinds.documents import RandomDocuments
from tests.examples import examples

DEFINITIONS = built_in(CLUSTER).definitions
FEW_EXAMPLES = examples(8)
SEEDS = st.integers(0, 2**32)
FORMATS = st.sampled_from(["compact", "spaced", "indented", "escaped"])


def exactly(definition: Definition, raw: bytes) -> Decoded | str:
    try:
        return definition.schema.decode_exactly(raw)
    except NotDecodable as error:
        return str(error)


def as_served(definition: Definition, raw: bytes) -> Decoded | str:
    try:
        return definition.schema.decode_json(raw)
    except NotDecodable as error:
        return str(error)


def order(value: Any) -> Any:
    """Members as ordered pairs, so that a comparison includes their order."""
    if isinstance(value, dict):
        return [(name, order(member)) for name, member in value.items()]
    return [order(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: f"{d.plural}.{d.group}")
@FEW_EXAMPLES
@given(SEEDS, FORMATS)
def test_decoders_agree_on_random_documents(definition: Definition, seed: int, format_name: str) -> None:
    raw = FORMATTERS[format_name](RandomDocuments(seed).of(definition.fields))
    served, exact = as_served(definition, raw), exactly(definition, raw)
    assert served == exact
    assert order(served) == order(exact)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: f"{d.plural}.{d.group}")
@FEW_EXAMPLES
@given(SEEDS)
def test_decoded_objects_decode_like_their_json(definition: Definition, seed: int) -> None:
    document = RandomDocuments(seed).of(definition.fields)
    try:
        from_tree: Decoded | str = definition.schema.decode_object(document)
    except NotDecodable as error:
        from_tree = str(error)
    assert order(from_tree) == order(exactly(definition, compact(document)))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: f"{d.plural}.{d.group}")
@FEW_EXAMPLES
@given(SEEDS)
def test_decoding_is_idempotent(definition: Definition, seed: int) -> None:
    decoded = as_served(definition, compact(RandomDocuments(seed, junk_one_in=400).of(definition.fields)))
    if isinstance(decoded, Decoded):
        again = as_served(definition, orjson.dumps(decoded.object))
        assert isinstance(again, Decoded) and order(again.object) == order(decoded.object)


@pytest.mark.parametrize("plural", ["configmaps", "secrets", "namespaces"])
@FEW_EXAMPLES
@given(SEEDS, st.integers(0, 9), st.integers(0, 9), st.sampled_from([b",", b" ,\n"]))
def test_every_duplicate_member_is_reported(
    plural: str, seed: int, which: int, where: int, comma: bytes
) -> None:
    definition = next(d for d in DEFINITIONS if d.plural == plural)
    members = list(RandomDocuments(seed).of(definition.fields).items()) or [("metadata", {})]
    repeated = members[which % len(members)]
    members.insert(where % len(members), repeated)
    raw = b"{" + comma.join(b'"%s":%s' % (name.encode(), compact(member)) for name, member in members) + b"}"
    decoded = as_served(definition, raw)
    assert decoded == exactly(definition, raw)
    if isinstance(decoded, Decoded) and repeated[0] != "unknown":
        assert f'duplicate field "{repeated[0]}"' in decoded.problems


def test_common_documents_take_the_fast_path() -> None:
    fast = {
        "configmaps": {"metadata": {"name": "a", "labels": {"b": "1", "a": "2"}}, "data": {"k": "v"}},
        "secrets": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "dg=="}},
        "namespaces": {"metadata": {"name": "a", "creationTimestamp": None}, "spec": {}, "status": {}},
        "leases": {"metadata": {"name": "a"}, "spec": {"renewTime": "2020-01-02T03:04:05.000006Z"}},
        "nodes": {"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "4", "memory": "16Gi"}}},
    }
    for definition in DEFINITIONS:
        if definition.plural in fast:
            for format_json in (compact, spaced, indented):
                assert definition.schema._pydantic.from_json(format_json(fast[definition.plural])) is not None


def compact(document: Any) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # integers past 64 bits
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def spaced(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def indented(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"


def escaped(document: Any) -> bytes:
    return json.dumps(document).encode().replace(b"<", b"\\u003c")


FORMATTERS = {"compact": compact, "spaced": spaced, "indented": indented, "escaped": escaped}

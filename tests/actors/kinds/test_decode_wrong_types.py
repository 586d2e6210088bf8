"""A value of the wrong type is refused, and the error names the field and the type of the value."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.schema.decoder import NotDecodable
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CASES = [
    ("configmaps", b'{"data":"x"}', "string into Go struct field ConfigMap.data of type map[string]string"),
    ("configmaps", b'{"data":{"k":1}}', "number into Go struct field ConfigMap.data of type string"),
    ("configmaps", b'{"data":{"k":true}}', "bool into Go struct field ConfigMap.data of type string"),
    ("configmaps", b'{"data":{"k":{}}}', "object into Go struct field ConfigMap.data of type string"),
    ("configmaps", b'{"immutable":"true"}', "string into Go struct field ConfigMap.immutable of type bool"),
    ("configmaps", b'{"immutable":1}', "number into Go struct field ConfigMap.immutable of type bool"),
    (
        "configmaps",
        b'{"metadata":"a"}',
        "string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
    ),
    (
        "configmaps",
        b'{"metadata":{"name":5}}',
        "number into Go struct field ObjectMeta.metadata.name of type string",
    ),
    (
        "configmaps",
        b'{"metadata":{"finalizers":{}}}',
        "object into Go struct field ObjectMeta.metadata.finalizers",
    ),
    ("priorityclasses", b'{"value":"5"}', "string into Go struct field PriorityClass.value of type int32"),
    (
        "endpoints",
        b'{"subsets":[{"ports":[{"port":[]}]}]}',
        "array into Go struct field EndpointPort.subsets.ports.port",
    ),
]


@cases(("plural", "raw", "text"), CASES)
def test_error_names_the_field_and_both_types(kinds: Definitions, plural: str, raw: bytes, text: str) -> None:
    kind = kinds[plural].kind
    with pytest.raises(NotDecodable) as refused:
        kinds[plural].schema.decode_json(raw)
    assert str(refused.value).startswith(
        f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal {text}'
    )


def test_wrong_type_takes_precedence_over_unknown_fields(kinds: Definitions) -> None:
    with pytest.raises(NotDecodable, match=r"ConfigMap\.data of type"):
        kinds["configmaps"].schema.decode_json(b'{"bogus":1,"data":5}')


def test_first_of_several_wrong_types_is_reported(kinds: Definitions) -> None:
    with pytest.raises(NotDecodable, match=r"ConfigMap\.immutable"):
        kinds["configmaps"].schema.decode_json(b'{"immutable":5,"data":5}')

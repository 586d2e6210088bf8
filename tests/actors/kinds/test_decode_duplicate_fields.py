"""Duplicate fields are reported; the last value counts, and objects are merged."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CASES = [
    ("secrets", b'{"type":"a","type":"b"}', {"type": "b"}, ['duplicate field "type"']),
    ("configmaps", b'{"data":{"k":"1","k":"2"}}', {"data": {"k": "2"}}, ['duplicate field "data.k"']),
    (
        "configmaps",
        b'{"data":{"k":"1"},"data":{"l":"2"}}',
        {"data": {"k": "1", "l": "2"}},
        ['duplicate field "data"'],
    ),
    ("configmaps", b'{"data":{"k":"1"},"data":null}', {}, ['duplicate field "data"']),
    ("secrets", b'{"type":"a","type":null}', {"type": "a"}, ['duplicate field "type"']),
    ("configmaps", b'{"kind":"ConfigMap","kind":"ConfigMap"}', {}, ['duplicate field "kind"']),
    (
        "configmaps",
        b'{"metadata":{"name":"a","labels":{"x":"1"}},"metadata":{"name":"b"}}',
        {"metadata": {"name": "b", "labels": {"x": "1"}}},
        ['duplicate field "metadata"'],
    ),
    (
        "serviceaccounts",
        b'{"imagePullSecrets":[{"name":"a"},{"name":"b","name":"c"}]}',
        {"imagePullSecrets": [{"name": "a"}, {"name": "c"}]},
        ['duplicate field "imagePullSecrets[1].name"'],
    ),
]


@cases(("plural", "raw", "expected", "problems"), CASES)
def test_duplicates_are_reported_and_the_last_value_counts(
    kinds: Definitions, plural: str, raw: bytes, expected: dict[str, object], problems: list[str]
) -> None:
    decoded = kinds[plural].schema.decode_json(raw)
    assert list(decoded.problems) == problems
    assert {"metadata": {}, **expected}.items() <= decoded.object.items()


def test_problems_are_in_document_order(kinds: Definitions) -> None:
    raw = (
        b'{"metadata": {"name": "a", "nmae": "b", "labels": {"l": "1", "l": "2"}},'
        b' "tpye": "x", "type": "Opaque", "type": "Opaque"}'
    )
    assert kinds["secrets"].schema.decode_json(raw).problems == (
        'unknown field "metadata.nmae"',
        'duplicate field "metadata.labels.l"',
        'unknown field "tpye"',
        'duplicate field "type"',
    )


@cases(
    "raw",
    [
        b'{"data":{"a":"1","a":"2"}}',
        b'{"data":{"a" : "1","a":"2"}}',
        b'{"data":{"a":"","\\u0061":""}}',
        b'{"data":{"":"","":""}}',
        b'{\n  "data": {\n    "a": "1",\n    "a": "1"\n  }\n}\n',
        b'{"data":{"a":"x: \\"y\\": z","a":"1"}}',
    ],
)
def test_escaped_duplicates_are_reported(kinds: Definitions, raw: bytes) -> None:
    assert len(kinds["configmaps"].schema.decode_json(raw).problems) == 1

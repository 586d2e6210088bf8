"""null counts as absent: a field is omitted, a map value is empty, a list item is its zero value."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CASES: list[tuple[str, Any, Any]] = [
    ("configmaps", {"data": None, "immutable": None, "binaryData": None}, {}),
    ("configmaps", {"metadata": None}, {}),
    ("configmaps", {"data": {"k": None}}, {"data": {"k": ""}}),
    ("configmaps", {"binaryData": {"k": None}}, {"binaryData": {"k": ""}}),
    ("configmaps", {"apiVersion": None, "kind": None}, {}),
    ("secrets", {"type": None}, {"type": "Opaque"}),
    ("serviceaccounts", {"secrets": [None]}, {"secrets": [{}]}),
    ("storageclasses", {"mountOptions": [None, "a"]}, {"mountOptions": ["", "a"]}),
]


@cases(("plural", "document", "expected"), CASES)
def test_null_is_decoded_as_absent(kinds: Definitions, plural: str, document: Any, expected: Any) -> None:
    assert {"metadata": {}, **expected}.items() <= kinds.decode(plural, document).items()


def test_every_field_of_metadata_may_be_null(kinds: Definitions) -> None:
    fields = kinds["configmaps"].fields.by_name["metadata"].type
    document = {"metadata": {field.name: None for field in fields.fields}}  # type: ignore[union-attr]
    assert kinds.decode("configmaps", document) == {"metadata": {}}

"""Map keys are sorted and struct fields in declared order, whatever order they were sent in."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions


def test_keys_of_maps_are_sorted(kinds: Definitions) -> None:
    document = {"data": {"b": "1", "a": "2", "B": "3"}, "metadata": {"labels": {"z": "1", "y": "2"}}}
    decoded = kinds.decode("configmaps", document)
    assert list(decoded["data"]) == ["B", "a", "b"]
    assert list(decoded["metadata"]["labels"]) == ["y", "z"]


def test_fields_are_in_declared_order(kinds: Definitions) -> None:
    document = {
        "binaryData": {"k": ""},
        "data": {"l": ""},
        "immutable": True,
        "metadata": {"uid": "u", "name": "n"},
    }
    decoded = kinds.decode("configmaps", document)
    assert list(decoded) == ["metadata", "immutable", "data", "binaryData"]
    assert list(decoded["metadata"]) == ["name", "uid"]

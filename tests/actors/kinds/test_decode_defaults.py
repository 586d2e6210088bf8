"""Declared defaults are filled in, in declared order, unless the caller wants the document without them."""

from __future__ import annotations

from typing import Any

import orjson

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CASES: list[tuple[str, Any, Any]] = [
    ("secrets", {}, {"type": "Opaque"}),
    ("secrets", {"type": ""}, {"type": "Opaque"}),
    ("secrets", {"type": "mine"}, {"type": "mine"}),
    ("namespaces", {}, {"status": {"phase": "Active"}}),
    ("storageclasses", {}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("storageclasses", {"reclaimPolicy": ""}, {"reclaimPolicy": ""}),
    ("priorityclasses", {}, {"preemptionPolicy": "PreemptLowerPriority"}),
    (
        "endpoints",
        {"subsets": [{"ports": [{"port": 80}, {"port": 81, "protocol": "UDP"}]}]},
        {"subsets": [{"ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "UDP"}]}]},
    ),
    (
        "nodes",
        {"spec": {"podCIDR": "10.0.0.0/24"}},
        {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}},
    ),
]


@cases(("plural", "document", "expected"), CASES)
def test_decoding_sets_defaults(kinds: Definitions, plural: str, document: Any, expected: Any) -> None:
    assert expected.items() <= kinds.decode(plural, document).items()


def test_allocatable_of_a_node_defaults_to_its_capacity(kinds: Definitions) -> None:
    status = kinds.decode("nodes", {"status": {"capacity": {"cpu": "4"}}})["status"]
    assert status["allocatable"] == {"cpu": "4"}
    assert list(status)[:2] == ["capacity", "allocatable"]


def test_a_namespace_is_labelled_with_its_name(kinds: Definitions, names: Any) -> None:
    decoded = kinds.decode("namespaces", {"metadata": {"name": "a", "labels": {"z": "1"}}})
    assert decoded["metadata"]["labels"] == {names.key("metadata.name"): "a", "z": "1"}


def test_defaults_are_in_declared_order(kinds: Definitions) -> None:
    decoded = kinds.decode("storageclasses", {"allowedTopologies": [{}], "provisioner": "p"})
    assert list(decoded) == [
        "metadata",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
        "allowedTopologies",
    ]


def test_defaults_are_never_shared_between_objects(kinds: Definitions) -> None:
    first, second = (kinds.decode("nodes", {}) for _ in range(2))
    first["status"]["nodeInfo"]["bootID"] = "x"
    assert second["status"]["nodeInfo"]["bootID"] == ""


@cases("plural", ["secrets", "namespaces", "storageclasses", "endpoints", "nodes"])
def test_document_can_be_decoded_without_defaults(kinds: Definitions, plural: str) -> None:
    document = {"metadata": {"name": "a"}}
    schema = kinds[plural].schema
    from_text = schema.decode_json(orjson.dumps(document), defaults=False)
    assert from_text == schema.decode_object(document, defaults=False)
    assert from_text.object["metadata"] == {"name": "a"}
    assert not {"type", "reclaimPolicy"} & set(from_text.object)
    assert from_text.object.get("status", {}).get("phase") is None

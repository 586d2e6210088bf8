"""CSIStorageCapacity: class and topology are immutable, amounts are not; two identical versions."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "csistoragecapacities"


def capacity(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "storageClassName": "fast", **parts}


@cases("plural", [PLURAL, f"{PLURAL}.new"])
def test_errors_of_a_create_are_reported_twice(kinds: Definitions, plural: str) -> None:
    assert kinds.create_causes(plural, capacity(capacity="0", maximumVolumeSize="5", nodeTopology={})) == []
    assert (
        kinds.create_causes(plural, capacity(capacity="-1"))
        == [("capacity", 'Invalid value: "-1": must be greater than or equal to 0')] * 2
    )
    wrong = kinds.create_causes(plural, capacity(storageClassName=""))
    assert [field for field, _ in wrong] == ["storageClassName"] * 2
    wrong = kinds.create_causes(plural, capacity(nodeTopology={"matchLabels": {"bad key": "x"}}))
    assert [field for field, _ in wrong] == ["nodeTopology.matchLabels"] * 2
    wrong = kinds.create_causes(plural, {**capacity(), "metadata": {"name": "Bad_"}})
    assert [field for field, _ in wrong] == ["metadata.name"] * 2


def test_topology_and_class_are_immutable(kinds: Definitions) -> None:
    before = capacity(nodeTopology={"matchLabels": {"a": "b"}}, capacity="1Gi")
    same = {"nodeTopology": before["nodeTopology"]}
    assert kinds.update(PLURAL, before, capacity(**same, capacity="2Gi", maximumVolumeSize="1Gi"))[1] == []
    assert kinds.update(PLURAL, before, capacity(**same, storageClassName="slow"))[1] == [
        ("storageClassName", 'Invalid value: "slow": field is immutable')
    ]
    assert kinds.update(PLURAL, before, capacity())[1] == [
        ("nodeTopology", 'Invalid value: "null": field is immutable')
    ]


def test_deprecated_node_labels_cause_warnings(kinds: Definitions, names: Names) -> None:
    old, newer = names.key("zone", "failure-domain.beta"), names.key("zone", "topology")
    topology = {"matchLabels": {old: "z"}, "matchExpressions": [{"key": old, "operator": "Exists"}]}
    advice = f'deprecated since v1.17; use "{newer}" instead'
    assert kinds[PLURAL].strategy.warnings(kinds.stored(PLURAL, capacity(nodeTopology=topology)), None) == [
        f"nodeTopology.matchExpressions[0].key: {old} is {advice}",
        f"nodeTopology.matchLabels.{old}: {advice}",
    ]


def test_v1beta1_is_converted_from_stored_v1(catalog: Catalog, kinds: Definitions, names: Names) -> None:
    group = names.group("storage")
    beta = catalog.find(group, "v1beta1", PLURAL)
    assert beta is not None and beta.type_name == f"{PLURAL}.{group}"
    assert catalog.groups()[group] == ("v1", "v1beta1")
    stored = kinds.stored(f"{PLURAL}.new", capacity(capacity="1Gi"))
    assert beta.storage.conversion is not None and beta.storage.conversion.from_storage(stored) == stored
    assert beta.deprecation_warning == (
        f"{group}/v1beta1 CSIStorageCapacity is deprecated in v1.24+, unavailable in v1.27+; "
        f"use {group}/v1 CSIStorageCapacity"
    )
    assert not kinds[PLURAL].deprecation_warning


def test_update_needs_a_resource_version_and_delete_returns_a_status(kinds: Definitions) -> None:
    assert not kinds[PLURAL].deletion.returns_object and not kinds[PLURAL].strategy.allow_unconditional_update

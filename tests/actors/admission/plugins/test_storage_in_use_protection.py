"""New claims and volumes get a protection finalizer, once."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from tests.actors.admission.admitted import admitted

CATALOG = built_in(CLUSTER)


def metadata_of(plural: str, operation: str, metadata: dict[str, Any]) -> Any:
    definition = CATALOG.find("", "v1", plural)
    assert definition is not None
    plugin = StorageObjectInUseProtection(CLUSTER, frozenset())
    return admitted(plugin, definition, operation, {"metadata": metadata})["metadata"]


@pytest.mark.parametrize(
    ("plural", "finalizer"),
    [
        ("persistentvolumeclaims", "cluster.io/pvc-protection"),
        ("persistentvolumes", "cluster.io/pv-protection"),
    ],
)
def test_new_claims_and_volumes_get_a_finalizer(plural: str, finalizer: str) -> None:
    for given, expected in (
        ({}, [finalizer]),
        ({"finalizers": ["example.com/x"]}, ["example.com/x", finalizer]),
        ({"finalizers": [finalizer]}, [finalizer]),
    ):
        assert metadata_of(plural, "CREATE", dict(given))["finalizers"] == expected


def test_other_kinds_and_updates_get_no_finalizer() -> None:
    for plural, operation in (("persistentvolumes", "UPDATE"), ("configmaps", "CREATE")):
        assert metadata_of(plural, operation, {}) == {}

"""New claims and volumes are held by a finalizer, once."""

from __future__ import annotations

from typing import Any

import pytest

from actors.admission.chain import Review
from actors.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from actors.kinds.catalog import Catalog
from actors.names import CLUSTER

CATALOG = Catalog(CLUSTER)


def review(plural: str, operation: str, metadata: dict[str, Any]) -> Review:
    definition = CATALOG.find("", "v1", plural)
    assert definition is not None
    return Review(operation, definition, "", "a", "", {"metadata": metadata}, None, "user", False)


@pytest.mark.parametrize(
    ("plural", "finalizer"),
    [
        ("persistentvolumeclaims", "cluster.io/pvc-protection"),
        ("persistentvolumes", "cluster.io/pv-protection"),
    ],
)
def test_new_ones_are_held(plural: str, finalizer: str) -> None:
    plugin = StorageObjectInUseProtection(CLUSTER)
    for given, expected in (
        ({}, [finalizer]),
        ({"finalizers": ["example.com/x"]}, ["example.com/x", finalizer]),
        ({"finalizers": [finalizer]}, [finalizer]),
    ):
        metadata: dict[str, Any] = dict(given)
        plugin.mutate(review(plural, "CREATE", metadata))
        assert metadata["finalizers"] == expected


def test_others_and_later_writes_are_left_alone() -> None:
    plugin = StorageObjectInUseProtection(CLUSTER)
    for plural, operation in (("persistentvolumes", "UPDATE"), ("configmaps", "CREATE")):
        metadata: dict[str, Any] = {}
        plugin.mutate(review(plural, operation, metadata))
        assert metadata == {}

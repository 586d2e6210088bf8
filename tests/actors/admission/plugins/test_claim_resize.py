"""A claim may grow only if it is bound and its storage class allows expansion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from tests.actors.object_store import ManualClock, Refused, Store, memory_folder

NOT_EXPANDABLE = (
    'persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can be resized and '
    "the storageclass that provisions the pvc must support resize"
)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    with memory_folder() as folder:
        async with trio.open_nursery() as nursery:
            made = Store(folder, ManualClock())
            await made.start(nursery)
            yield made
            made.stop()
            nursery.cancel_scope.cancel()


def claim(size: str, class_name: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": class_name,
    }
    return {"metadata": {"name": "a"}, "spec": spec}


async def bind(store: Store, class_name: str) -> None:
    await store.create("persistentvolumeclaims", claim("1Gi", class_name))
    found = {**claim("1Gi", class_name), "status": {"phase": "Bound"}}
    await store.replace("persistentvolumeclaims", found, subresource="status")


async def test_bound_claim_grows_if_its_class_allows_expansion(store: Store) -> None:
    await store.create(
        "storageclasses",
        {"metadata": {"name": "fast"}, "provisioner": "example.com/x", "allowVolumeExpansion": True},
    )
    await bind(store, "fast")
    grown = await store.replace("persistentvolumeclaims", claim("2Gi", "fast"))
    assert grown["spec"]["resources"] == {"requests": {"storage": "2Gi"}}


@pytest.mark.parametrize("expandable", [None, False])
async def test_growth_is_refused_otherwise(store: Store, expandable: bool | None) -> None:
    if expandable is not None:
        await store.create(
            "storageclasses",
            {
                "metadata": {"name": "slow"},
                "provisioner": "example.com/x",
                "allowVolumeExpansion": expandable,
            },
        )
    await bind(store, "slow")
    with pytest.raises(Refused) as refused:
        await store.replace("persistentvolumeclaims", claim("2Gi", "slow"))
    assert refused.value.message == NOT_EXPANDABLE
    assert await store.replace("persistentvolumeclaims", claim("1Gi", "slow"))

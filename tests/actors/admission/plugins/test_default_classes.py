"""Claims and ingresses without a class get the default class."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.object_store import Refused, Store, open_store

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
IS_DEFAULT = "storageclass.cluster.io/is-default-class"


async def create_class(store: Store, name: str, key: str = IS_DEFAULT, value: str = "true") -> None:
    body = {"metadata": {"name": name, "annotations": {key: value}}, "provisioner": "example.com/none"}
    await store.create("storageclasses", body)


async def claimed(store: Store, name: str, annotations: Any = None, **spec: Any) -> Any:
    metadata = {"name": name, "annotations": annotations or {}}
    body = {"metadata": metadata, "spec": {**CLAIM, **spec}}
    return (await store.create("persistentvolumeclaims", body))["spec"].get("storageClassName")


@pytest.mark.parametrize("key", [IS_DEFAULT, "storageclass.beta.cluster.io/is-default-class"])
async def test_claim_gets_the_default_class(key: str) -> None:
    async with open_store() as store:
        assert await claimed(store, "early") is None
        await create_class(store, "other", key, "yes")
        assert await claimed(store, "still") is None
        await create_class(store, "fast", key)
        assert await claimed(store, "a") == "fast"
        assert await claimed(store, "named", storageClassName="other") == "other"
        assert await claimed(store, "none", storageClassName="") == ""
        assert await claimed(store, "old", {"volume.beta.cluster.io/storage-class": "x"}) is None
        made = await store.get("persistentvolumeclaims", "a")
        assert list(made["spec"]) == ["accessModes", "resources", "storageClassName", "volumeMode"]


async def test_claim_is_refused_while_there_are_two_default_classes() -> None:
    async with open_store() as store:
        await create_class(store, "fast")
        await create_class(store, "slow")
        why = "Internal error occurred: 2 default StorageClasses were found"
        with pytest.raises(Refused) as refused:
            await claimed(store, "a")
        assert refused.value.message == f'persistentvolumeclaims "a" is forbidden: {why}'
        await store.delete("storageclasses", "slow")
        assert await claimed(store, "a") == "fast"


async def ingress(store: Store, name: str, annotations: Any = None, **spec: Any) -> Any:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    metadata = {"name": name, "annotations": annotations or {}}
    body = {"metadata": metadata, "spec": {"defaultBackend": backend, **spec}}
    return (await store.create("ingresses", body))["spec"].get("ingressClassName")


async def create_ingress_class(store: Store, name: str) -> None:
    annotations = {"ingressclass.cluster.io/is-default-class": "true"}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"controller": "example.com/c"}}
    await store.create("ingressclasses", body)


async def test_ingress_gets_the_newest_default_class() -> None:
    """Among classes created in the same second, the first by name."""
    async with open_store() as store:
        assert await ingress(store, "early") is None
        await create_ingress_class(store, "a")
        assert await ingress(store, "one") == "a"
        store.clock.advance(1)
        await create_ingress_class(store, "c")
        await create_ingress_class(store, "b")
        assert await ingress(store, "two") == "b"
        assert await ingress(store, "named", ingressClassName="a") == "a"
        assert await ingress(store, "old", {"cluster.io/ingress.class": "x"}) is None

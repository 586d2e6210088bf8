"""A duplicate owner reference is stored once, with a warning."""

from __future__ import annotations

from typing import Any

import orjson

from tests.actors.object_store import Document
from tests.gateway.api import Api, config_map, served

PATH = "/api/v1/namespaces/default/configmaps"
TEXT = (
    "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "
    "please fix your requests; duplicate UID(s) observed: "
)
SENT = f'299 - ".metadata.ownerReferences contains duplicate entries; {TEXT}'
PATCHED = (
    f'299 - ".metadata.ownerReferences contains duplicate entries after mutating admission happens; {TEXT}'
)


async def owner(api: Api) -> Document:
    made = await api.create("configmaps", config_map("owner"))
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made["metadata"]["uid"]}


def owned(*owners: Any) -> bytes:
    return orjson.dumps({"metadata": {"name": "a", "ownerReferences": owners}})


async def test_duplicate_owner_in_a_create_or_update_is_dropped() -> None:
    async with served() as api:
        one = await owner(api)
        for method, path in (("POST", PATH), ("PUT", f"{PATH}/a")):
            response = await api.ask(method, path, owned(one, one, one))
            assert response.document["metadata"]["ownerReferences"] == [one]
            assert response.warnings == [f'{SENT}{one["uid"]}, {one["uid"]}"']


async def test_duplicate_owner_from_a_patch_is_dropped() -> None:
    async with served() as api:
        one = await owner(api)
        await api.ask("POST", PATH, owned(one))
        added = orjson.dumps([{"op": "add", "path": "/metadata/ownerReferences/-", "value": one}])
        headers = {"content-type": "application/json-patch+json"}
        response = await api.ask("PATCH", f"{PATH}/a", added, headers=headers)
        assert response.document["metadata"]["ownerReferences"] == [one]
        assert response.warnings == [f'{PATCHED}{one["uid"]}"']


async def test_different_references_to_one_owner_are_stored() -> None:
    async with served() as api:
        one = await owner(api)
        two = {**one, "blockOwnerDeletion": True}
        response = await api.ask("POST", PATH, owned(one, two))
        assert response.document["metadata"]["ownerReferences"] == [one, two]
        assert response.warnings == []

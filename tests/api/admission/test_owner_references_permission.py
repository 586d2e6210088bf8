"""OwnerReferencesPermissionEnforcement: rights that a change of ownerReferences needs."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.server.extensions import Extensions
from tests.gateway.api import ALICE, Api, ApiResponse, config_map, served
from tests.gateway.granting import Grants

PATH = "/api/v1/namespaces/default/configmaps"
MERGE = {"content-type": "application/merge-patch+json"}
MAY_WRITE = [
    ("alice", "create", "configmaps", ""),
    ("alice", "create", "configmaps", "any"),
    ("alice", "patch", "configmaps", "any"),
]
MAY_DELETE = ("alice", "delete", "configmaps", "child")
NOT_DELETABLE = "cannot set an ownerRef on a resource you can't delete: , <nil>"
NOT_FINALIZABLE = (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: "
    ", <nil>"
)


def owner(uid: str, *, blocks: bool | None = None, kind: str = "ConfigMap") -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": kind, "name": "owner", "uid": uid}
    return reference if blocks is None else {**reference, "blockOwnerDeletion": blocks}


async def own(api: Api, reference: dict[str, Any], **query: str) -> ApiResponse:
    body = {"metadata": {"ownerReferences": [reference]}}
    return await api.ask("PATCH", f"{PATH}/child", body, token=ALICE, headers=MERGE, **query)


@pytest.fixture
def grants() -> Grants:
    return Grants(*MAY_WRITE)


def started(grants: Grants) -> Any:
    return served(
        extensions=Extensions(authorizers=[grants]),
        enable_admission_plugins="OwnerReferencesPermissionEnforcement",
    )


async def test_changing_owners_needs_the_right_to_delete(grants: Grants) -> None:
    async with started(grants) as api:
        await api.create("configmaps", config_map("child"))
        uid = (await api.create("configmaps", config_map("owner")))["metadata"]["uid"]
        for query in ({}, {"dryRun": "All"}):
            refused = (await own(api, owner(uid), **query)).expect(403)
            assert refused["message"] == f'configmaps "child" is forbidden: {NOT_DELETABLE}'
        body = {"data": {"a": "b"}}
        assert (await api.ask("PATCH", f"{PATH}/child", body, token=ALICE, headers=MERGE)).status == 200
        grants.rights.add(MAY_DELETE)
        (await own(api, owner(uid))).expect(200)
        grants.rights.remove(MAY_DELETE)
        (await own(api, owner(uid))).expect(200)  # no change
        removed = {"metadata": {"ownerReferences": None}}
        assert (await api.ask("PATCH", f"{PATH}/child", removed, token=ALICE, headers=MERGE)).status == 403


async def test_blocking_the_deletion_of_the_owner_needs_its_finalizers(grants: Grants) -> None:
    grants.rights.add(MAY_DELETE)
    async with started(grants) as api:
        await api.create("configmaps", config_map("child"))
        uid = (await api.create("configmaps", config_map("owner")))["metadata"]["uid"]
        refused = (await own(api, owner(uid, blocks=True))).expect(403)
        assert refused["message"] == f'configmaps "child" is forbidden: {NOT_FINALIZABLE}'
        (await own(api, owner(uid, blocks=False))).expect(200)
        assert (await own(api, owner(uid, blocks=True))).status == 403
        grants.rights.add(("alice", "update", "configmaps/finalizers", "owner"))
        (await own(api, owner(uid, blocks=True))).expect(200)
        grants.rights.remove(("alice", "update", "configmaps/finalizers", "owner"))
        (await own(api, {**owner(uid, blocks=True), "controller": True})).expect(200)  # it blocked before


async def test_creates_need_rights_only_to_block_the_owner(grants: Grants) -> None:
    async with started(grants) as api:
        uid = (await api.create("configmaps", config_map("owner")))["metadata"]["uid"]
        for name, reference, status in (("a", owner(uid), 201), ("b", owner(uid, blocks=True), 403)):
            body = {"metadata": {"name": name, "ownerReferences": [reference]}}
            assert (await api.ask("POST", PATH, body, token=ALICE)).status == status


async def test_owner_of_an_unknown_kind_cannot_be_blocked_without_rights_on_all_finalizers(
    grants: Grants,
) -> None:
    async with started(grants) as api:
        body = {"metadata": {"name": "a", "ownerReferences": [owner("u", blocks=True, kind="Nothing")]}}
        refused = (await api.ask("POST", PATH, body, token=ALICE)).expect(403)
        assert (
            'APIVersion v1 Kind Nothing: no matches for kind "Nothing" in version "v1"' in refused["message"]
        )
        grants.rights.add(("alice", "update", "*/finalizers", "*"))
        (await api.ask("POST", PATH, body, token=ALICE)).expect(201)

"""Metadata that only the server sets: set on create, unchanged on update, whatever a client sends."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Document, Refused
from tests.gateway.api import Opener
from tests.gateway.custom_api import generic

SENT = {
    "uid": "11111111-2222-3333-4444-555555555555",
    "creationTimestamp": "1999-01-01T00:00:00Z",
    "deletionTimestamp": "1999-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 30,
    "selfLink": "/somewhere",
    "generation": 7,
}


def lease(**metadata: object) -> Document:
    return {"metadata": {"name": "a", **metadata}, "spec": {"holderIdentity": "me"}}


@generic
async def test_create_ignores_system_metadata(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("leases", lease(**SENT))
        metadata = made["metadata"]
        given = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"}
        assert set(metadata) == given
        assert metadata["uid"] != SENT["uid"]
        assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"


@generic
async def test_update_keeps_system_metadata(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("leases", lease())
        api.clock.advance(60)
        sent = {
            **SENT,
            "uid": made["metadata"]["uid"],
            "creationTimestamp": made["metadata"]["creationTimestamp"],
        }
        del sent["deletionTimestamp"], sent["deletionGracePeriodSeconds"]
        changed = await api.replace(
            "leases",
            lease(**sent, resourceVersion=made["metadata"]["resourceVersion"], labels={"new": "yes"}),
        )
        for name in ("uid", "creationTimestamp"):
            assert changed["metadata"][name] == made["metadata"][name]
        assert "generation" not in changed["metadata"]
        assert "selfLink" not in changed["metadata"]
        assert "deletionTimestamp" not in changed["metadata"]


@generic
async def test_namespace_is_that_of_the_path(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("leases", lease(), "cluster-public")
        assert made["metadata"]["namespace"] == "cluster-public"


@generic
@pytest.mark.parametrize("version", ["", "0"])
async def test_empty_version_on_create_is_ignored(opened: Opener, version: str) -> None:
    async with opened() as api:
        assert (await api.create("leases", lease(resourceVersion=version)))["metadata"]["resourceVersion"]


@generic
@pytest.mark.parametrize("version", ["1", "999999"])
async def test_resource_version_on_create_is_refused(opened: Opener, version: str) -> None:
    async with opened() as api:
        with pytest.raises(Refused, match="resourceVersion should not be set") as refused:
            await api.create("leases", lease(resourceVersion=version))
        assert refused.value.reason == "BadRequest"


@generic
async def test_versions_increase_over_all_kinds(opened: Opener) -> None:
    async with opened() as api:
        versions = []
        for number in range(3):
            for plural in ("leases", "secrets"):
                made = await api.create(plural, {"metadata": {"name": f"a{number}"}})
                versions.append(int(made["metadata"]["resourceVersion"]))
        await api.delete("leases", "a0")
        versions.append(int((await api.list("leases"))["metadata"]["resourceVersion"]))
        assert versions == sorted(set(versions))

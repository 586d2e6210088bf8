"""PUT to a name that does not exist is a 404 for most kinds; for a few it creates the object."""

from __future__ import annotations

from functools import partial

import pytest

from rewound.actors.errors import Forbidden
from rewound.actors.messages import Replace
from tests.actors.access.authorization.policies import binding, role, rule, user
from tests.actors.object_store import Document, Refused, open_store
from tests.gateway.api import ALICE, Opener, everywhere, served

CREATED = ["leases", "endpoints"]
MISSING = ["configmaps", "secrets", "serviceaccounts"]


def body(**metadata: object) -> Document:
    return {"metadata": {"name": "a", **metadata}}


@everywhere
@pytest.mark.parametrize("plural", CREATED)
async def test_put_creates_objects_of_some_kinds(opened: Opener, plural: str) -> None:
    async with opened() as api:
        made = await api.replace(plural, body(labels={"made": "by-put"}))
        assert made["metadata"]["labels"] == {"made": "by-put"}
        assert (await api.get(plural, "a"))["metadata"]["uid"] == made["metadata"]["uid"]


@everywhere
@pytest.mark.parametrize("plural", MISSING)
async def test_put_to_a_missing_object_of_other_kinds_is_not_found(opened: Opener, plural: str) -> None:
    async with opened() as api:
        with pytest.raises(Refused, match=f'{plural} "a" not found') as refused:
            await api.replace(plural, body())
        assert refused.value.reason == "NotFound"
        assert "a" not in [item["metadata"]["name"] for item in (await api.list(plural))["items"]]


@everywhere
@pytest.mark.parametrize("version", ["1", "999999"])
async def test_resource_version_is_ignored_by_a_creating_put(opened: Opener, version: str) -> None:
    async with opened() as api:
        assert (await api.replace("leases", body(resourceVersion=version)))["metadata"][
            "resourceVersion"
        ] != version


@everywhere
async def test_put_with_a_uid_creates_nothing(opened: Opener) -> None:
    async with opened() as api:
        with pytest.raises(Refused, match="UID in precondition") as refused:
            await api.replace("leases", body(uid="11111111-2222-3333-4444-555555555555"))
        assert refused.value.reason == "Conflict"
        assert (await api.list("leases"))["items"] == []


@everywhere
async def test_put_to_a_missing_namespace_creates_nothing(opened: Opener) -> None:
    async with opened() as api:
        with pytest.raises(Refused, match='namespaces "missing" not found'):
            await api.replace("leases", body(), "missing")


async def test_creating_put_needs_the_right_to_create() -> None:
    async with open_store() as store:
        definition = store.definition("leases")
        command = Replace(
            definition.api_version,
            "default",
            "a",
            body(),
            store.write_contexts.new("alice", "m"),
            may_create=False,
        )
        with pytest.raises(Forbidden, match='"a" is forbidden'):
            await store.directory.ask(definition, command)


async def test_creating_put_is_201_and_the_next_200() -> None:
    async with served() as api:
        path = api.path("leases", name="a")
        made = (await api.ask("PUT", path, body())).expect(201)
        again = body(resourceVersion=made["metadata"]["resourceVersion"], labels={"second": "time"})
        assert (await api.ask("PUT", path, again)).status == 200
        dry = await api.ask("PUT", api.path("leases", name="b"), {"metadata": {"name": "b"}}, dryRun="All")
        assert dry.status == 201
        assert (await api.ask("GET", api.path("leases", name="b"))).status == 404


async def test_put_and_apply_create_only_for_those_who_may_create() -> None:
    kinds = "leases configmaps"
    apply = {"content-type": "application/apply-patch+yaml"}
    applied = {"apiVersion": "v1", "kind": "ConfigMap", **body()}
    async with served() as api:
        writes = [
            partial(api.ask, "PUT", api.path("leases", name="a"), body(), token=ALICE),
            partial(
                api.ask,
                "PATCH",
                api.path("configmaps", name="a") + "?fieldManager=m",
                applied,
                token=ALICE,
                headers=apply,
            ),
        ]
        await api.create("clusterroles", role("writer", rule("update patch", kinds, "*")))
        await api.create("clusterrolebindings", binding("writer", "writer", user("alice")))
        for write in writes:
            refused = (await write()).expect(403)
            assert refused["message"].endswith('"a" is forbidden: User "alice" cannot create this object')
        for plural in kinds.split():
            assert (await api.ask("GET", api.path(plural, name="a"))).status == 404
        await api.replace("clusterroles", role("writer", rule("update patch create", kinds, "*")))
        assert [(await write()).status for write in writes] == [201, 201]

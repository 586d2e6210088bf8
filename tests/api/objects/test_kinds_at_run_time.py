"""A kind that is registered while the server runs is served like any other, and removed again without a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import trio

from rewound.actors.kinds.schema.fields import STRING, Field
from rewound.journal.log import Journal
from tests.actors.kinds.crontabs import GROUP, PATH, TYPE, crontabs
from tests.actors.object_store import Document
from tests.gateway.api import Api
from tests.gateway.registering import registering
from tests.gateway.watch.watching import ports, transports, watching

GROUP_PATH = f"/apis/{GROUP}/v1"
APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}


def crontab(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", **spec},
    }


async def absent(api: Api) -> None:
    assert (await api.ask("GET", PATH)).status == 404
    assert (await api.ask("POST", PATH, crontab("never"))).status == 404
    assert (await api.ask("GET", GROUP_PATH)).status == 404
    assert GROUP not in (await api.ask("GET", "/apis")).text
    assert f"/apis/{GROUP}" not in (await api.ask("GET", "/")).text


async def test_kind_is_served_only_while_it_is_registered() -> None:
    async with registering() as (api, registry):
        await absent(api)
        await registry.register(crontabs())
        made = (await api.ask("POST", PATH, crontab("a"))).expect(201)
        assert (await api.ask("GET", f"{PATH}/a")).expect(200) == made
        registry.retire(TYPE)
        await absent(api)
        await registry.register(crontabs())
        assert (await api.ask("GET", f"{PATH}/a")).expect(200) == made
        (await api.ask("DELETE", f"{PATH}/a")).expect(200)
        registry.remove(TYPE)
        await absent(api)


async def test_objects_are_created_listed_patched_and_applied() -> None:
    async with registering() as (api, registry):
        await registry.register(crontabs())
        assert (await api.ask("GET", PATH)).expect(200)["items"] == []
        (await api.ask("POST", PATH, crontab("a"))).expect(201)
        patched = await api.ask("PATCH", f"{PATH}/a", {"spec": {"replicas": 3}}, headers=MERGE)
        assert patched.expect(200)["metadata"]["generation"] == 2
        status = {"status": {"runs": 7}, "spec": {"replicas": 9}}
        through = (await api.ask("PATCH", f"{PATH}/a/status", status, headers=MERGE)).expect(200)
        assert (through["status"]["runs"], through["spec"]["replicas"]) == (7, 3)
        applied = await api.ask(
            "PATCH", f"{PATH}/b", crontab("b", replicas=1), headers=APPLY, fieldManager="me"
        )
        owners = [one["manager"] for one in applied.expect(201)["metadata"]["managedFields"]]
        assert owners == ["me"]
        listed = (await api.ask("GET", PATH)).expect(200)
        assert listed["kind"] == "CronTabList"
        assert [one["metadata"]["name"] for one in listed["items"]] == ["a", "b"]
        unknown = await api.ask("POST", PATH, crontab("c", colour="red"), fieldValidation="Strict")
        assert unknown.expect(400)["message"].endswith('unknown field "spec.colour"')


@transports
async def test_watch_ends_when_its_kind_is_removed(transport: str) -> None:
    async with registering(**ports(transport)) as (api, registry):
        await registry.register(crontabs())
        async with watching(api, PATH, transport) as watch:
            (await api.ask("POST", PATH, crontab("a"))).expect(201)
            assert await watch.types_and_names(1) == [("ADDED", "a")]
            (await api.ask("DELETE", f"{PATH}/a")).expect(200)
            registry.retire(TYPE)
            assert [(event["type"]) for event in await watch.end()] == ["DELETED"]
            assert watch.close_code in (None, 1000)


async def test_watches_of_other_kinds_continue() -> None:
    async with registering() as (api, registry):
        await registry.register(crontabs())
        async with watching(api, api.path("configmaps")) as other, watching(api, PATH) as watch:
            registry.retire(TYPE)
            assert await watch.end() == []
            await api.create("configmaps", {"metadata": {"name": "a"}})
            assert await other.types_and_names(1) == [("ADDED", "a")]


async def test_watches_of_a_replaced_definition_end() -> None:
    async with registering() as (api, registry):
        await registry.register(crontabs(), newer := crontabs("v2"))
        path = PATH.replace("v1", "v2")
        async with watching(api, PATH) as replaced, watching(api, path) as kept:
            await registry.register(crontabs("v1", Field("image", STRING, 3)), newer)
            assert await replaced.end() == []
            (await api.ask("POST", PATH, crontab("a", image="x"))).expect(201)
            [event] = await kept.take(1)
            assert event["object"]["apiVersion"] == f"{GROUP}/v2"


async def test_discovery_lists_a_registered_kind() -> None:
    async with registering() as (api, registry):
        await registry.register(crontabs(), crontabs("v2"))
        [group] = [one for one in (await api.ask("GET", "/apis")).document["groups"] if one["name"] == GROUP]
        assert [one["version"] for one in group["versions"]] == ["v2", "v1"]
        own, status = (await api.ask("GET", GROUP_PATH)).expect(200)["resources"]
        assert (own["name"], own["shortNames"], own["categories"]) == ("crontabs", ["ct"], ["all"])
        assert (status["name"], status["verbs"]) == ("crontabs/status", ["get", "patch", "update"])
        second = (await api.ask("GET", f"/apis/{GROUP}/v2")).expect(200)["resources"][0]
        assert own["storageVersionHash"] == second["storageVersionHash"]
        assert "storageVersionHash" not in status


async def test_registered_kind_has_metrics_while_it_is_served() -> None:
    line = f'dry_run="",group="{GROUP}",resource="crontabs",scope="namespace",subresource="",verb="LIST"'
    async with registering() as (api, registry):
        await registry.register(crontabs())
        await api.ask("GET", PATH)
        assert line in (await api.ask("GET", "/metrics")).text
        registry.retire(TYPE)
        assert f'group="{GROUP}"' not in (await api.ask("GET", "/metrics")).text
        await api.ask("GET", PATH)
        assert f'group="{GROUP}"' not in (await api.ask("GET", "/metrics")).text


async def test_reads_and_watches_never_write(monkeypatch: pytest.MonkeyPatch) -> None:
    journals: list[Journal] = []
    original = Journal.open

    def opened(*parts: Any, **options: Any) -> Journal:
        journals.append(original(*parts, **options))
        return journals[-1]

    monkeypatch.setattr(Journal, "open", opened)
    async with registering() as (api, registry):
        await registry.register(crontabs())
        service = f"/apis/apiregistration.cluster.io/v1/apiservices/v1.{GROUP}"
        with trio.fail_after(60):
            while (await api.ask("GET", service)).status != 200:  # a controller creates it
                pass
        before = journals[-1].statistics()["transactions"]
        for definition in registry.current.definitions:
            if "list" in definition.verbs:
                root = f"/apis/{definition.api_version}" if definition.group else "/api/v1"
                (await api.ask("GET", f"{root}/{definition.plural}")).expect(200)
        assert (await api.ask("GET", f"{PATH}/none")).status == 404
        async with watching(api, PATH):
            pass
        assert journals[-1].statistics()["transactions"] == before


async def test_namespace_deletion_includes_objects_of_removed_kinds() -> None:
    async with registering() as (api, registry):
        await registry.register(crontabs())
        await api.create("namespaces", {"metadata": {"name": "doomed"}})
        (await api.ask("POST", PATH.replace("default", "doomed"), crontab("a"))).expect(201)
        registry.retire(TYPE)
        (await api.ask("DELETE", "/api/v1/namespaces/doomed")).expect(200)
        with trio.fail_after(60):
            while (await api.ask("GET", "/api/v1/namespaces/doomed")).status != 404:
                await trio.lowlevel.checkpoint()
        await registry.register(crontabs())
        assert (await api.ask("GET", f"{GROUP_PATH}/crontabs")).expect(200)["items"] == []


async def test_request_is_not_found_if_its_kind_is_removed_meanwhile() -> None:
    async with registering() as (api, registry):
        await registry.register(crontabs())

        async def body() -> AsyncIterator[bytes]:
            content = orjson.dumps(crontab("late"))
            yield content[:10]
            with trio.fail_after(60):
                while (
                    await api.ask("GET", PATH)
                ).status == 200:  # the head has been read when this has a response
                    registry.retire(TYPE)
            yield content[10:]

        response = await api.client.post(
            PATH, content=body(), headers={"authorization": "Bearer admin-token"}
        )
        assert response.status_code == 404

"""The storage version of a custom kind changes while objects remain stored in earlier versions."""

from __future__ import annotations

import orjson

from tests.actors.object_store import Document
from tests.api.custom.kinds import (
    DEFINITIONS,
    GROUP,
    MERGE,
    NAME,
    WIDGETS,
    define,
    definition,
    until,
    version,
    widget,
)
from tests.gateway.api import Api, served

OTHER = WIDGETS.replace("/v1/", "/v2/")
ONLY_TEXT: Document = {"type": "object", "properties": {"text": {"type": "string", "default": "none"}}}


async def switch_storage(api: Api, *versions: Document) -> None:
    patch = {"spec": {"versions": list(versions)}}
    (await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", patch, headers=MERGE)).expect(200)


async def test_first_update_after_the_switch_writes_the_new_storage_version() -> None:
    async with served() as api:
        await define(api, definition(version("v1"), version("v2", storage=False)))
        created = (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        await switch_storage(api, version("v1", storage=False), version("v2"))
        read = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
        assert read == created
        unchanged = {"metadata": {"labels": None}}
        rewritten = (await api.ask("PATCH", f"{WIDGETS}/a", unchanged, headers=MERGE)).expect(200)
        assert rewritten["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
        again = (await api.ask("PATCH", f"{OTHER}/a", unchanged, headers=MERGE)).expect(200)
        assert again["apiVersion"] == f"{GROUP}/v2"
        assert again["metadata"]["resourceVersion"] == rewritten["metadata"]["resourceVersion"]


async def test_object_of_an_earlier_storage_version_is_read_by_its_own_schema() -> None:
    """Fields that the new storage version lacks remain stored until the object is written again."""
    async with served() as api:
        await define(api, definition(version("v1"), version("v2", spec=ONLY_TEXT, storage=False)))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        await switch_storage(api, version("v1", storage=False), version("v2", spec=ONLY_TEXT))
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["spec"] == {"size": 1}
        [item] = (await api.ask("GET", WIDGETS)).expect(200)["items"]
        assert (item["apiVersion"], item["spec"]) == (f"{GROUP}/v1", {"size": 1})
        assert (await api.ask("GET", f"{OTHER}/a")).expect(200)["spec"] == {}
        await switch_storage(api, version("v1"), version("v2", spec=ONLY_TEXT, storage=False))
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["spec"] == {"size": 1}


async def test_owner_in_an_earlier_storage_version_is_deleted_in_the_foreground() -> None:
    """The garbage collector removes the finalizer, and changes nothing else."""
    async with served() as api:
        await define(api, definition(version("v1"), version("v2", storage=False)))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        await switch_storage(api, version("v1", storage=False), version("v2"))
        deleted = await api.ask("DELETE", f"{OTHER}/a", propagationPolicy="Foreground")
        assert deleted.status == 200

        async def is_gone() -> bool:
            return (await api.ask("GET", f"{WIDGETS}/a")).status == 404

        await until(api, is_gone)


async def test_apiversion_is_once_in_every_representation() -> None:
    async with served() as api:
        await define(api, definition())
        created = await api.ask("POST", WIDGETS, widget("a"))
        single = await api.ask("GET", f"{WIDGETS}/a")
        table = await api.ask(
            "GET", WIDGETS, headers={"accept": "application/json;as=Table;v=v1;g=meta.cluster.io"}
        )
        for response in (created, single):
            assert response.text.startswith('{"kind":"Widget","apiVersion":"example.com/v1","metadata":{')
            assert response.text.count(f'"{GROUP}/v1"') == 1 + response.text.count('"manager"')
        listed = (await api.ask("GET", WIDGETS)).expect(200)["items"][0]
        assert orjson.dumps(listed)[:20] == orjson.dumps(single.expect(200))[:20]
        assert table.expect(200)["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

"""OpenAPI follows kinds that are added and removed at run time: only the documents of their group version change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rewound.actors.kinds.schema.fields import STRING, Field
from rewound.gateway.describe.openapi.handler import PROTOBUF
from rewound.gateway.describe.openapi.operations import Operations, Path
from rewound.gateway.describe.openapi.schemas import Schemas
from tests.actors.kinds.crontabs import GROUP, PATH, TYPE, crontabs
from tests.gateway.api import Api
from tests.gateway.registering import registering

NAME = f"apis/{GROUP}/v1"
PLACE = PATH.replace("default", "{namespace}")


async def etags(api: Api) -> dict[str, str]:
    """The ETags of all documents of version 3, from their responses."""
    paths = (await api.ask("GET", "/openapi/v3")).expect(200)["paths"]
    found = {}
    for name, entry in paths.items():
        found[name] = (await api.ask("GET", f"/openapi/v3/{name}")).headers["etag"]
        assert entry["serverRelativeURL"].endswith(f"?hash={found[name][1:-1]}")
    return found


async def test_new_kind_is_in_version_2_until_it_is_removed() -> None:
    async with registering() as (api, registry):
        before = await api.ask("GET", "/openapi/v2")
        await registry.register(crontabs())
        document = (await api.ask("GET", "/openapi/v2")).expect(200)
        assert set(document["paths"][PLACE]) == {"get", "post", "delete", "parameters"}
        assert f"{PLACE}/{{name}}/status" in document["paths"]
        [title] = [one for one in document["definitions"] if one.endswith(f"{GROUP}.v1.CronTab")]
        assert "spec" in document["definitions"][title]["properties"]
        binary = await api.ask("GET", "/openapi/v2", headers={"accept": PROTOBUF})
        assert PLACE.encode() in binary.body
        registry.retire(TYPE)
        after = await api.ask("GET", "/openapi/v2")
        assert (after.headers["etag"], after.body) == (before.headers["etag"], before.body)
        assert PLACE.encode() not in (await api.ask("GET", "/openapi/v2", headers={"accept": PROTOBUF})).body


async def test_new_kind_changes_no_other_document_of_version_3() -> None:
    async with registering() as (api, registry):
        before = await etags(api)
        await registry.register(crontabs())
        after = await etags(api)
        assert after.keys() - before.keys() == {f"apis/{GROUP}", NAME}
        assert before.items() <= after.items()
        await registry.register(crontabs("v1", Field("image", STRING, 3)))
        changed = await etags(api)
        assert {name for name, etag in changed.items() if after[name] != etag} == {NAME}
        registry.remove(TYPE)
        assert await etags(api) == before
        assert (await api.ask("GET", f"/openapi/v3/{NAME}")).status == 404


async def test_documents_do_not_depend_on_when_they_are_made() -> None:
    async with registering() as (api, _):
        early = await etags(api)
    async with registering() as (api, registry):
        await registry.register(crontabs())
        assert early.items() <= (await etags(api)).items()


async def test_only_the_group_version_of_a_new_kind_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    paths = Operations.paths

    def recorded(operations: Operations) -> Iterator[Path]:
        described.append(operations._definition.group)
        return paths(operations)

    monkeypatch.setattr(Operations, "paths", recorded)
    async with registering() as (api, registry):
        await ask_for_all(api)
        described.clear()
        await registry.register(crontabs())
        await ask_for_all(api)
        assert described == [GROUP] * 3
        registry.retire(TYPE)
        await ask_for_all(api)
        assert described == [GROUP] * 3


async def ask_for_all(api: Api) -> None:
    (await api.ask("GET", "/openapi/v2")).expect(200)
    assert (await api.ask("GET", "/openapi/v2", headers={"accept": PROTOBUF})).status == 200
    (await api.ask("GET", "/openapi/v3")).expect(200)


async def test_one_document_is_made_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    original = Schemas.definitions

    def counted(schemas: Schemas[bytes]) -> Iterator[tuple[str, bytes]]:
        nonlocal written
        written += 1
        return original(schemas)

    monkeypatch.setattr(Schemas, "definitions", counted)
    async with registering() as (api, _):
        (await api.ask("GET", "/openapi/v3/apis/apps/v1")).expect(200)
        assert written == 1

"""Stored bytes that are no object with members in JSON: lists and watches leave them out, a get names the object, and a
delete works.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from rewound.actors.versions.features import UNSAFE_DELETES
from tests.actors.object_store import memory_folder
from tests.gateway.api import Api, Document, config_map, served
from tests.gateway.watch.watching import watching
from tests.robustness.poison import BODIES, Poison, write

TABLE = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
PATH = "/api/v1/namespaces/default/configmaps"
SETTINGS = {"dialect": "kubernetes", "kubernetes_version": "1.36"}
WITHOUT_JSON = (
    *("no JSON", "empty", "null", "list", "text", "no UTF-8", "5000 levels", "not a number"),
    "empty object",
)
IGNORE = {"ignoreStoreReadErrorWithClusterBreakingPotential": "true"}


def unreadable() -> list[Poison]:
    bodies = [body for text, body in BODIES if text in WITHOUT_JSON]
    assert len(bodies) == len(WITHOUT_JSON)
    return [
        Poison("", "configmaps", "default", f"m-{number}", body.replace(b"NAME", b"m-%d" % number))
        for number, body in enumerate(bodies)
    ]


@asynccontextmanager
async def with_unreadable(found: Sequence[Poison], **settings: str) -> AsyncIterator[Api]:
    """A server with these objects, after `a` and before `z`."""
    with memory_folder() as folder:
        async with served(folder, **SETTINGS) as api:
            for name in ("a", "z"):
                await api.create("configmaps", config_map(name))
        write(folder / "data" / "journal", found, "kubernetes")
        async with served(folder, **SETTINGS, **settings) as api:
            yield api


def names(api_list: Document) -> list[str]:
    return [item["metadata"]["name"] for item in api_list["items"]]


async def test_lists_leave_out_and_name_them(caplog: pytest.LogCaptureFixture) -> None:
    found = unreadable()
    async with with_unreadable(found) as api:
        for _ in range(2):  # the first compares all objects
            assert names(await api.list("configmaps")) == ["a", "z"]
        everywhere = names(await api.list("configmaps", None))
        assert (
            "z" in everywhere
            and len(everywhere) > 2
            and not any(name.startswith("m-") for name in everywhere)
        )
        page = await api.list("configmaps", limit=1)
        rest = await api.list("configmaps", limit=9, **{"continue": page["metadata"]["continue"]})
        assert names(page) + names(rest) == ["a", "z"]
        assert names(await api.list("configmaps", fieldSelector="metadata.name=m-0")) == []
        table = (await api.ask("GET", PATH, headers=TABLE)).expect(200)
        assert [row["cells"][0] for row in table["rows"]] == ["a", "z"]
    for poison in found:
        assert caplog.text.count(f"default/{poison.name} is left out of lists") == 1


async def test_get_names_the_object_and_delete_removes_it() -> None:
    found = unreadable()
    async with with_unreadable(found) as api:
        for poison in found:
            path = f"{PATH}/{poison.name}"
            status = (await api.ask("GET", path)).expect(500)
            assert status["reason"] == "InternalError"
            assert f'configmaps "{poison.name}" cannot be read' in status["message"]
            (await api.ask("DELETE", path)).expect(200)
            (await api.ask("GET", path)).expect(404)
        assert names(await api.list("configmaps")) == ["a", "z"]


async def test_replacing_an_object_makes_it_readable() -> None:
    async with with_unreadable(unreadable()) as api:
        for poison in unreadable():
            await api.replace("configmaps", config_map(poison.name))
            metadata = (await api.get("configmaps", poison.name))["metadata"]
            assert metadata["name"] == poison.name and metadata["uid"]
        assert len(names(await api.list("configmaps"))) == 2 + len(WITHOUT_JSON)


async def test_watch_leaves_them_out() -> None:
    async with (
        with_unreadable(unreadable()) as api,
        watching(api, PATH) as fresh,
        watching(api, PATH, resourceVersion="1") as resumed,
    ):
        (await api.ask("DELETE", f"{PATH}/m-0")).expect(200)
        await api.create("configmaps", config_map("new"))
        for watch in fresh, resumed:
            seen: list[str] = []
            while "new" not in seen:
                seen += [event["object"]["metadata"]["name"] for event in await watch.take(1)]
            assert seen[:2] == ["a", "z"]
            assert set(seen) <= {"a", "z", "m-0", "new"}


async def test_option_to_ignore_read_errors_deletes_only_them() -> None:
    async with with_unreadable(unreadable(), feature_gates=f"{UNSAFE_DELETES}=true") as api:
        (await api.ask("DELETE", f"{PATH}/a", **IGNORE)).expect(422)
        (await api.ask("DELETE", f"{PATH}/m-0", **IGNORE)).expect(200)

"""Which kinds are recorded, and how: custom, new and unknown ones, Secrets, and those of one namespace."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.recording.record import follower
from rewound.recording.record.recorder import Recorder
from tests.actors.object_store import Document, memory_folder
from tests.gateway.api import ADMIN, ALICE, Api, config_map, served
from tests.recording.record.recording import events_of, opened, recording

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITIONS = "/apis/apiextensions.cluster.io/v1/customresourcedefinitions"


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


def definition() -> Document:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }
    return {
        "apiVersion": "apiextensions.cluster.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wi"]},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def widget(name: str, size: int) -> Document:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size},
    }


async def define(api: Api) -> None:
    (await api.ask("POST", DEFINITIONS, definition())).expect(201)
    with trio.fail_after(60):
        while (await api.ask("GET", WIDGETS)).status != 200:
            await trio.sleep(0.1)


async def recorded(recorder: Recorder, count: int) -> None:
    with trio.fail_after(60):
        while len(recorder.writer.names_of("widgets.example.com")) < count:
            await trio.sleep(0.1)


async def listed(api: Api, **query: Any) -> Document:
    return (await api.ask("GET", WIDGETS, **query)).expect(200)


async def test_new_kind_is_picked_up(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        async with recording(api, folder / "data") as (recorder, _):
            await define(api)
            for size in (1, 2):
                (await api.ask("POST", WIDGETS, widget(f"w{size}", size))).expect(201)
            await recorded(recorder, 2)
            (await api.ask("POST", WIDGETS, widget("w3", 3))).expect(201)
            await recorded(recorder, 3)
        version = await api.head()
        expected = await listed(api)
    async with served(folder) as again:
        assert (await listed(again, at=version))["items"] == expected["items"]


async def test_kind_without_a_definition_is_served_as_it_was_recorded(
    folder: Path, autojump_clock: MockClock
) -> None:
    """Alice may not read definitions: the recorder adds one that allows everything."""
    async with served() as api:
        await define(api)
        (await api.ask("POST", WIDGETS, widget("a", 1))).expect(201)
        rules = [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["list", "watch"]}]
        await api.create("clusterroles", {"metadata": {"name": "w"}, "rules": rules})
        subjects = [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.cluster.io"}]
        role = {"kind": "ClusterRole", "name": "w", "apiGroup": "rbac.authorization.cluster.io"}
        await api.create(
            "clusterrolebindings", {"metadata": {"name": "w"}, "subjects": subjects, "roleRef": role}
        )
        async with recording(api, folder / "data", kinds=("wi",), token=ALICE):
            (await api.ask("POST", WIDGETS, widget("b", 2))).expect(201)
        expected = await listed(api)
    async with served(folder) as again:
        found = await listed(again)
        assert found["items"] == expected["items"]
        added = (await again.ask("GET", f"{DEFINITIONS}/widgets.example.com", token=ADMIN)).expect(200)
        assert added["metadata"]["annotations"] == {"record.rewound.cluster.io/added": "true"}


@pytest.mark.parametrize("with_secrets", [False, True])
async def test_values_of_secrets_are_masked(
    folder: Path, autojump_clock: MockClock, with_secrets: bool
) -> None:
    manifest = {
        "cluster.io/last-applied-configuration": '{"data": {"a": "hidden"}}',
        "copy": "is hidden",
        "note": "plain",
    }
    async with served() as api:
        async with recording(api, folder, kinds=("secrets",), with_secrets=with_secrets):
            body = {"metadata": {"name": "a", "annotations": manifest}, "stringData": {"a": "hidden"}}
            await api.create("secrets", body)
        async with opened(folder) as journal:
            (event,) = [one for one in events_of(journal, "secrets") if one.name == "a"]
    document = orjson.loads(event.body)
    if with_secrets:
        assert document["data"] == {"a": base64.b64encode(b"hidden").decode()}
        assert document["metadata"]["annotations"] == manifest
    else:
        assert document["data"] == {"a": base64.b64encode(b"***").decode()}
        assert document["metadata"]["annotations"] == {
            **manifest,
            "cluster.io/last-applied-configuration": "***",
            "copy": "***",
        }
        assert b"hidden" not in (folder / "journal" / "data.mdb").read_bytes()
    for path in (folder, folder / "journal" / "data.mdb"):
        assert path.stat().st_mode & 0o077 == 0, "only its owner can read it"


async def test_only_one_namespace(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        await api.create("namespaces", {"metadata": {"name": "other"}})
        async with recording(api, folder, namespace="default") as (_, session):
            await api.create("configmaps", config_map("a"))
            await api.create("configmaps", config_map("b"), "other")
        async with opened(folder) as journal:
            assert {one.namespace for one in events_of(journal, "configmaps")} == {"default"}
            assert events_of(journal, "namespaces") == []
        assert all("/namespaces/default/" in path for path, how in session.sent if how == "watch")


async def test_pages_of_long_lists(
    folder: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "FIRST_PAGE", 10)
    async with served() as api:
        for number in range(11):
            await api.create("configmaps", config_map(f"n{number}"))
        async with recording(api, folder, kinds=("cm",)) as (recorder, session):
            assert recorder.progress().objects == len((await api.list("configmaps", None))["items"])
        lists = [path for path, how in session.sent if how == "list"]
        assert lists == ["/api/v1/configmaps"] * 2

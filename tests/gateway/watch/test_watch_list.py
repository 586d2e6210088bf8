"""`--feature-gates WatchList=true`: watches with sendInitialEvents, with which new clients start without a list."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from rewound.gateway.handlers.watches import empty_stored
from rewound.gateway.wire.encoders import TableEncoder
from tests.actors.object_store import Document
from tests.cases import checking
from tests.gateway.api import Api, config_map, labelled, served
from tests.gateway.nodes import nodes
from tests.gateway.watch.test_protobuf_streams import first_events
from tests.gateway.watch.watching import type_and_name, versions, watching
from tests.settling import advance
from tests.testing.faults.injecting import set_faults

GATE = {"feature_gates": "WatchList=true"}
PATH = "/api/v1/namespaces/default/configmaps"
END = "cluster.io/initial-events-end"
ASKED = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
transports = pytest.mark.parametrize("transport", ["plain", "ws", "h2"])


def is_end(event: Document, key: str = END) -> bool:
    return event["type"] == "BOOKMARK" and event["object"]["metadata"].get("annotations") == {key: "true"}


async def made(api: Api, *names: str) -> None:
    for name in names:
        await api.create("configmaps", config_map(name))


@transports
async def test_objects_the_end_and_the_events_since(transport: str) -> None:
    async with served(**GATE) as api:
        await made(api, "a", "b")
        head = await api.head()
        async with watching(api, PATH, transport, **ASKED) as watch:
            *objects, end = await watch.take(3)
            assert [type_and_name(one) for one in objects] == [("ADDED", "a"), ("ADDED", "b")]
            assert is_end(end)
            assert versions([end]) == [int(head)]
            assert (end["object"]["kind"], end["object"]["apiVersion"]) == ("ConfigMap", "v1")
            await made(api, "c")
            assert await watch.types_and_names(1) == [("ADDED", "c")]


async def test_annotation_of_the_kubernetes_dialect() -> None:
    async with served(dialect="kubernetes", **GATE) as api, watching(api, PATH, **ASKED) as watch:
        while not is_end((await watch.take(1))[0], "k8s.io/initial-events-end"):
            assert not is_end(watch.events[-1])


async def test_starts_by_version() -> None:
    """For each combination: the types of the events, without later ones."""
    async with served(**GATE) as api:
        await made(api, "a")
        old = await api.head()
        await made(api, "b")
        everything = ["ADDED a", "ADDED b", "END"]
        none = {"sendInitialEvents": "false"}
        expected: list[tuple[Document, list[str]]] = [
            ({**none, "resourceVersion": old}, ["ADDED b"]),  # first, because it gets what other cases write
            ({}, everything),
            ({"resourceVersion": "0"}, everything),
            ({"resourceVersion": old}, everything),  # not older than that
            ({"resourceVersion": await api.head()}, everything),
            ({"allowWatchBookmarks": "false"}, everything[:2]),
            (none, []),
            ({**none, "resourceVersion": "0"}, []),
            ({"sendInitialEvents": ""}, everything),
        ]
        with checking() as case:
            for number, (query, wanted) in enumerate(expected):
                with case(query):
                    mark = f"mark-{number}"
                    async with watching(api, PATH, **{**ASKED, **query}) as watch:
                        await api.create("secrets", {"metadata": {"name": mark}})
                        await made(api, mark)
                        found = []
                        while (event := (await watch.take(1))[0])["object"]["metadata"].get("name") != mark:
                            found.append("END" if is_end(event) else " ".join(type_and_name(event)))
                        assert found == wanted
                    await api.delete("configmaps", mark)


async def test_older_watches_get_the_bookmark_too() -> None:
    """As in Kubernetes, where a watch without a version has sendInitialEvents by default."""
    async with served(**GATE) as api:
        await made(api, "a")
        async with watching(api, PATH, allowWatchBookmarks="true") as watch:
            first, end = await watch.take(2)
            assert type_and_name(first) == ("ADDED", "a")
            assert is_end(end)
        async with watching(api, PATH) as watch:
            await made(api, "b")
            assert await watch.types_and_names(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_future_version_is_too_large(mock_clock: MockClock) -> None:
    async with served(**GATE) as api:

        async def ask() -> None:
            event = (await api.ask("GET", PATH, watch=1, resourceVersion=10**9, **ASKED)).expect(200)
            assert (event["type"], event["object"]["code"]) == ("ERROR", 504)
            assert "Too large resource version" in event["object"]["message"]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await advance(mock_clock, 4)


async def test_version_that_is_committed_meanwhile_is_awaited() -> None:
    async with served(**GATE) as api:
        head = int(await api.head())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made, api, "a")
            async with watching(api, PATH, resourceVersion=head + 1, **ASKED) as watch:
                first, end = await watch.take(2)
                assert type_and_name(first) == ("ADDED", "a")
                assert versions([end])[0] >= head + 1


REFUSED: list[tuple[Document, list[str]]] = [
    (
        {"watch": 1, "sendInitialEvents": "true"},
        ["Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"],
    ),
    (
        {"watch": 1, "sendInitialEvents": "false", "resourceVersionMatch": "Exact"},
        [
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            'Unsupported value: "Exact": supported values: "NotOlderThan"',
        ],
    ),
    (
        {"watch": 1, "resourceVersionMatch": "NotOlderThan"},
        ["Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"],
    ),
    (
        {"watch": 1, "resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "1", "continue": "x"},
        ["Forbidden: resourceVersionMatch is forbidden when continue is provided"],
    ),
    ({"sendInitialEvents": "true"}, ["Forbidden: sendInitialEvents is forbidden for list"]),
    (
        {"sendInitialEvents": "false", "resourceVersionMatch": "Exact"},
        [
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            "Forbidden: sendInitialEvents is forbidden for list",
        ],
    ),
]


async def test_options_that_do_not_fit_together_are_refused() -> None:
    async with served(**GATE) as api:
        with checking() as case:
            for query, messages in REFUSED:
                with case(query):
                    refused = (await api.ask("GET", PATH, **query)).expect(422)
                    assert refused["message"].startswith('ListOptions.meta.cluster.io "" is invalid: ')
                    assert [one["message"] for one in refused["details"]["causes"]] == messages


async def test_without_the_gate_the_response_is_that_of_release_1_25() -> None:
    async with served() as api:
        refused = (await api.ask("GET", PATH, watch=1, **ASKED)).expect(422)
        assert [one["message"] for one in refused["details"]["causes"]] == [
            "Forbidden: resourceVersionMatch is forbidden for watch",
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ]
        assert (await api.ask("GET", PATH, sendInitialEvents="true")).status == 200  # nobody knows it
        await made(api, "a")
        query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "timeoutSeconds": 1}
        async with watching(api, PATH, **query) as watch:
            first, last = await watch.end()
            assert type_and_name(first) == ("ADDED", "a")
            assert "annotations" not in last["object"]["metadata"]


async def test_selectors_and_representations() -> None:
    async with served(**GATE) as api:
        for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
            await api.create("configmaps", labelled(name, app=app))
        async with watching(api, PATH, labelSelector="app=web", **ASKED) as watch:
            first, second, end = await watch.take(3)
            assert [type_and_name(one)[1] for one in (first, second)] == ["a", "c"]
            assert is_end(end)
        table = {"accept": "application/json;as=Table;v=v1;g=meta.cluster.io"}
        async with watching(api, PATH, headers=table, fieldSelector="metadata.name=none", **ASKED) as watch:
            (end,) = await watch.take(1)
            assert is_end(end)
            await made(api, "none")
            (event,) = await watch.take(1)
            assert event["object"]["columnDefinitions"]  # they come with the first row
        partial = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.cluster.io"}
        async with watching(api, f"{PATH}/a", headers=partial, **ASKED) as watch:
            first, end = await watch.take(2)
            assert is_end(end)
            assert end["object"]["kind"] == "PartialObjectMetadata"
        (_, _), (kind, mark) = await first_events(api, 2, fieldSelector="metadata.name=a", **ASKED)
        assert (kind, dict(mark.metadata.annotations)) == ("BOOKMARK", {END: "true"})


async def test_many_objects_and_a_slow_reader() -> None:
    """The bookmark that ends initial events is sent once, after the last of many pages."""
    async with served(**GATE) as api:
        async with trio.open_nursery() as nursery:
            for number in range(120):
                nursery.start_soon(made, api, f"n{number:03}")
        async with watching(api, PATH, stalled=True, **ASKED) as watch:
            watch.resume()  # type: ignore[attr-defined]
            found = await watch.take(121)
            assert [type_and_name(one)[1] for one in found[:-1]] == [f"n{number:03}" for number in range(120)]
            assert [is_end(one) for one in found] == [False] * 120 + [True]


HELD = {"user-agent": "operator/1"}


@pytest.mark.parametrize("version", ["", "0", "newer"])
async def test_held_client_gets_initial_events_of_the_held_state(version: str) -> None:
    """Without a version it is a consistent read, with 0 it shows the held state; later events are held."""
    async with served(enable_test_controls=True, **GATE) as api:
        await made(api, "a")
        match = {"match": {"userAgent": "operator/*"}}
        name = (await api.ask("POST", "/debug/rewound/holds", match)).expect(201)["name"]
        await made(api, "b")
        newer = await api.head()
        await made(api, "c")
        head = int(await api.head())
        query: dict[str, Any] = {"resourceVersion": newer if version == "newer" else version}
        visible = {"": ["a", "b", "c"], "0": ["a"], "newer": ["a", "b"]}[version]
        async with watching(api, PATH, headers=HELD, **{**ASKED, **query}) as watch:
            *objects, end = await watch.take(len(visible) + 1)
            assert [type_and_name(one)[1] for one in objects] == visible
            assert is_end(end)
            assert (versions([end])[0] >= head) is (version == "")
            await made(api, "d")
            rest = [one for one in ("b", "c", "d") if one not in visible]
            for expected in rest:
                released = await api.ask("POST", f"/debug/rewound/holds/{name}/release", {"events": 1})
                assert released.expect(200)["released"] == 1
                assert await watch.types_and_names(1) == [("ADDED", expected)]


async def test_version_of_a_watch_list_never_expires() -> None:
    async with served(enable_test_controls=True, **GATE) as api:
        await made(api, "a")
        await set_faults(api, {"fault": {"expired": {}}, "match": {"resources": ["configmaps"]}})
        async with watching(api, PATH, resourceVersion=await api.head(), **ASKED) as watch:
            assert is_end((await watch.take(2))[1])


async def test_nodes_of_a_cluster() -> None:
    """A consistent read on one node includes what another node has just written."""
    async with nodes(2, **GATE) as (first, second):
        for number in range(5):
            await made(first, f"n{number}")
            async with watching(second, PATH, **ASKED) as watch:
                *objects, end = await watch.take(number + 2)
                assert [type_and_name(one)[1] for one in objects] == [f"n{one}" for one in range(number + 1)]
                assert is_end(end)


KUBERNETES_END = {"k8s.io/initial-events-end": "true"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


async def test_end_in_a_table_is_the_annotation_of_a_row() -> None:
    """As kube-apiserver 1.36 sends it, also to clients that want no objects."""
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        await made(api, "a")
        query = {"fieldSelector": "metadata.name=a", "includeObject": "None", **ASKED}
        async with watching(api, PATH, headers=TABLE, **query) as watch:
            _, end = await watch.take(2)
            (row,) = end["object"]["rows"]
            assert row["cells"] == ["", 0, "<unknown>"]
            assert row["object"]["metadata"].pop("resourceVersion") == await api.head()
            assert row["object"]["metadata"] == {"annotations": KUBERNETES_END}


async def test_blueprint_of_the_list_in_1_33() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.33", **GATE) as api:
        async with watching(api, PATH, fieldSelector="metadata.name=none", **ASKED) as watch:
            (end,) = await watch.take(1)
            annotations = end["object"]["metadata"]["annotations"]
            blueprint = annotations.pop("kubernetes.io/initial-events-list-blueprint")
            assert annotations == KUBERNETES_END
            assert b64decode(blueprint) == (
                b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":null}\n'
            )
        refused = (await api.ask("GET", PATH, headers=TABLE, watch=1, **ASKED)).expect(406)
        assert refused["message"].startswith("only the following media types are accepted: application/json,")


@pytest.mark.parametrize("version", ["1.25", "1.36"])
def test_every_kind_has_a_row_for_bookmarks(version: str) -> None:
    for definition in built_in(KUBERNETES, choose_release(version, "")).definitions:
        if "watch" not in definition.verbs:
            continue
        stored = empty_stored(definition)
        stored["metadata"] = {"resourceVersion": "1"}
        table = TableEncoder(definition, KUBERNETES, "v1", "", lambda: 0).item(unescaped(stored))
        assert len(orjson.loads(table)["rows"]) == 1, definition

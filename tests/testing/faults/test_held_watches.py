"""Tests hold and release watches: the watcher sees an older state; no event is lost, repeated or reordered."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import trio

from tests.actors.object_store import Document
from tests.gateway.api import Api, config_map, labelled, names
from tests.gateway.watch.test_protobuf_streams import first_events
from tests.gateway.watch.watching import type_and_name, watching
from tests.settling import settled
from tests.testing.faults.injecting import PATH, injecting, set_faults

HOLDS = "/debug/rewound/holds"
OPERATOR = {"user-agent": "operator/1"}
MATCH: Document = {"userAgent": "operator/*", "resources": ["configmaps"]}
transports = pytest.mark.parametrize("transport", ["plain", "ws", "h2"])


async def hold(api: Api, **match: Any) -> str:
    held = (await api.ask("POST", HOLDS, {"match": match or MATCH})).expect(201)
    return str(held["name"])


async def release(api: Api, name: str, events: int | None = None) -> int:
    body = None if events is None else {"events": events}
    return int((await api.ask("POST", f"{HOLDS}/{name}/release", body)).expect(200)["released"])


async def state(api: Api, name: str) -> Document:
    return (await api.ask("GET", f"{HOLDS}/{name}")).expect(200)


async def reached(api: Api, name: str) -> int:
    (watch,) = (await state(api, name))["watches"]
    return int(watch["version"])


async def write(api: Api, *texts: str) -> list[str]:
    """Changes of one object; returns their versions."""
    made = [await api.replace("configmaps", config_map("a", text=text)) for text in texts]
    return [one["metadata"]["resourceVersion"] for one in made]


async def created(api: Api) -> str:
    made = await api.create("configmaps", config_map("a", text="0"))
    return str(made["metadata"]["resourceVersion"])


def texts(events: list[Document]) -> list[str]:
    return [event["object"]["data"]["text"] for event in events]


@transports
async def test_running_watch_is_held_and_released_event_by_event(transport: str) -> None:
    async with (
        injecting() as api,
        watching(api, PATH, transport, resourceVersion=await created(api), headers=OPERATOR) as watch,
        watching(api, PATH, transport, resourceVersion=await api.head()) as other,
    ):
        await write(api, "1")
        assert texts(await watch.take(1)) == ["1"]
        name = await hold(api)
        versions = await write(api, "2", "3", "4")
        assert texts(await other.take(4)) == ["1", "2", "3", "4"]  # its own world is the newest
        assert await reached(api, name) < int(versions[0])
        assert (await state(api, name))["pending"] == 3
        assert await release(api, name, 1) == 1
        assert texts(await watch.take(1)) == ["2"]
        assert int(versions[0]) <= await reached(api, name) < int(versions[1])
        assert await release(api, name, 1) == 1
        assert texts(await watch.take(1)) == ["3"]
        assert await release(api, name) == 1
        assert texts(await watch.take(1)) == ["4"]
        await write(api, "5")
        assert texts(await watch.take(1)) == ["5"]
        assert not watch.untaken


async def test_release_of_more_than_there_is_holds_on() -> None:
    async with (
        injecting() as api,
        watching(api, PATH, resourceVersion=await created(api), headers=OPERATOR) as watch,
    ):
        name = await hold(api)
        assert await release(api, name, 5) == 0
        await write(api, "1", "2")
        assert await release(api, name, 5) == 2
        assert texts(await watch.take(2)) == ["1", "2"]
        versions = await write(api, "3")
        assert await reached(api, name) < int(versions[0])
        assert await release(api, name, 1) == 1
        assert texts(await watch.take(1)) == ["3"]


async def test_writes_of_a_held_client_go_through_and_its_gets_are_fresh() -> None:
    async with injecting() as api:
        version = await created(api)
        async with watching(api, PATH, resourceVersion=version, headers=OPERATOR) as watch:
            name = await hold(api)
            body = {**config_map("a", text="mine")}
            await api.ask("PUT", f"{PATH}/a", body, headers=OPERATOR)
            for query in ({}, {"resourceVersion": "0"}):
                got = (await api.ask("GET", f"{PATH}/a", headers=OPERATOR, **query)).expect(200)
                assert got["data"]["text"] == "mine"
            await release(api, name)
            assert texts(await watch.take(1)) == ["mine"]


async def test_reconnect_continues_where_the_held_watch_ended() -> None:
    async with injecting() as api:
        version = await created(api)
        async with watching(api, PATH, resourceVersion=version, headers=OPERATOR) as watch:
            name = await hold(api)
            await write(api, "1", "2", "3")
            await release(api, name, 1)
            (event,) = await watch.take(1)
        assert (await state(api, name))["watches"][0]["open"] is False
        assert await release(api, name, 1) == 1  # while nobody is connected
        seen = event["object"]["metadata"]["resourceVersion"]
        async with watching(api, PATH, resourceVersion=seen, headers=OPERATOR) as watch:
            assert texts(await watch.take(1)) == ["2"]
            assert (await state(api, name))["pending"] == 1
            assert await release(api, name, 1) == 1
            assert texts(await watch.take(1)) == ["3"]
        assert (await state(api, name))["pending"] == 0


async def test_bookmark_at_the_end_is_not_newer_than_what_was_sent() -> None:
    async with injecting() as api:
        version = await created(api)
        query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": 1}
        name = await hold(api)
        async with watching(api, PATH, headers=OPERATOR, **query) as watch:
            written = await write(api, "1", "2")
            await release(api, name, 1)
            event, bookmark = await watch.end()
        assert texts([event]) == ["1"]
        assert bookmark["type"] == "BOOKMARK"
        marked = int(bookmark["object"]["metadata"]["resourceVersion"])
        assert int(written[0]) <= marked < int(written[1])
        async with watching(api, PATH, resourceVersion=marked, headers=OPERATOR) as watch:
            await release(api, name)
            assert texts(await watch.take(1)) == ["2"]


@transports
@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_initial_events_are_those_of_the_held_moment(transport: str, query: Document) -> None:
    async with injecting() as api:
        await created(api)
        name = await hold(api)
        await write(api, "1")
        await api.create("configmaps", config_map("b", text="b"))
        async with watching(api, PATH, transport, headers=OPERATOR, **query) as watch:
            assert texts(await watch.take(1)) == ["0"]
            assert await release(api, name, 1) == 1
            assert [(one["type"], *texts([one])) for one in await watch.take(1)] == [("MODIFIED", "1")]
            assert await release(api, name) == 1
            assert [(one["type"], *texts([one])) for one in await watch.take(1)] == [("ADDED", "b")]
            assert not watch.untaken


async def test_lists_are_fresh_unless_they_may_be_old() -> None:
    async with injecting() as api:
        await created(api)
        name = await hold(api)
        (newer,) = await write(api, "1")
        await api.create("configmaps", config_map("b"))

        async def listed(**query: Any) -> list[str]:
            found = (await api.ask("GET", PATH, headers=OPERATOR, **query)).expect(200)
            return [item["data"].get("text", "-") if "data" in item else "-" for item in found["items"]]

        assert await listed() == ["1", "-"]
        response = await api.ask("GET", PATH, headers=OPERATOR, resourceVersion=0)
        assert response.headers["rewound-fault"] == name
        assert await listed(resourceVersion=0) == ["0"]
        assert await listed(resourceVersion=newer) == ["1"]  # not older than that
        assert names((await api.ask("GET", PATH, resourceVersion=0)).expect(200)) == ["a", "b"]
        # A client that has seen a newer version in its watch never gets an older one.
        async with watching(api, PATH, resourceVersion=await api.head(), headers=OPERATOR):
            assert await listed(resourceVersion=0) == ["1", "-"]


async def test_pending_counts_what_a_list_of_the_held_world_lacks() -> None:
    async with injecting() as api:
        await created(api)
        name = await hold(api)
        await write(api, "1", "2")
        assert (await state(api, name))["pending"] == 0  # no client has requested anything
        found = (await api.ask("GET", PATH, headers=OPERATOR, resourceVersion=0)).expect(200)
        held = await state(api, name)
        version = found["metadata"]["resourceVersion"]
        assert held["pending"] == 2 and [one["version"] for one in held["lists"]] == [version]
        assert await release(api, name, 1) == 1 and (await state(api, name))["pending"] == 1
        # The next list has one more, and a watch from its version is counted instead.
        found = (await api.ask("GET", PATH, headers=OPERATOR, resourceVersion=0)).expect(200)
        assert [one["data"]["text"] for one in found["items"]] == ["1"]
        version = found["metadata"]["resourceVersion"]
        async with watching(api, PATH, resourceVersion=version, headers=OPERATOR) as watch:
            held = await state(api, name)
            assert held["pending"] == 1 and held["lists"] == []
            assert await release(api, name) == 1
            assert texts(await watch.take(1)) == ["2"]


async def test_pending_of_a_list_counts_what_its_selectors_select() -> None:
    async with injecting() as api:
        name = await hold(api)
        for query in ({"labelSelector": "a=b"}, {"labelSelector": "a=b", "fieldSelector": "metadata.name=x"}):
            (await api.ask("GET", PATH, headers=OPERATOR, resourceVersion=0, **query)).expect(200)
            assert len((await state(api, name))["lists"]) == 1
        await api.create("configmaps", labelled("x", a="b"))
        await api.create("configmaps", labelled("y", a="b"))
        await api.create("configmaps", labelled("z", a="c"))
        assert (await state(api, name))["pending"] == 1


async def test_watch_from_a_newer_version_gets_only_what_it_has_not_seen() -> None:
    async with injecting() as api:
        await created(api)
        name = await hold(api)
        await write(api, "1", "2")
        async with watching(api, PATH, resourceVersion=await api.head(), headers=OPERATOR) as watch:
            await write(api, "3", "4")
            assert await release(api, name, 1) == 1
            assert texts(await watch.take(1)) == ["3"]
            assert await release(api, name) == 1
            assert texts(await watch.take(1)) == ["4"]


async def test_kinds_of_one_client_are_held_separately() -> None:
    async with injecting() as api:
        version, secrets = await created(api), "/api/v1/namespaces/default/secrets"
        async with (
            watching(api, PATH, resourceVersion=version, headers=OPERATOR) as maps,
            watching(api, secrets, resourceVersion=version, headers=OPERATOR) as others,
        ):
            held_maps = await hold(api)
            held_secrets = await hold(api, userAgent="operator/*", resources=["secrets"])
            await write(api, "1")
            await api.create("secrets", {"metadata": {"name": "s"}})
            assert await release(api, held_secrets, 1) == 1
            assert type_and_name((await others.take(1))[0]) == ("ADDED", "s")
            assert (await state(api, held_maps))["pending"] == 1
            await release(api, held_maps)
            assert texts(await maps.take(1)) == ["1"]


async def test_hold_of_two_kinds_releases_in_the_order_of_commits() -> None:
    async with injecting() as api:
        version, secrets = await created(api), "/api/v1/namespaces/default/secrets"
        async with (
            watching(api, PATH, resourceVersion=version, headers=OPERATOR) as maps,
            watching(api, secrets, resourceVersion=version, headers=OPERATOR) as others,
            watching(api, PATH, resourceVersion=version, headers=OPERATOR) as twin,
        ):
            name = await hold(api, userAgent="operator/*")
            await api.create("secrets", {"metadata": {"name": "s"}})
            await write(api, "1", "2")
            assert await release(api, name, 2) == 2  # the secret, and one change that two watches get
            assert type_and_name((await others.take(1))[0]) == ("ADDED", "s")
            assert texts(await maps.take(1)) == texts(await twin.take(1)) == ["1"]
            assert (await state(api, name))["pending"] == 1
            await release(api, name)
            assert texts(await maps.take(1)) == texts(await twin.take(1)) == ["2"]


async def test_two_holds_of_a_watch_both_hold() -> None:
    async with (
        injecting() as api,
        watching(api, PATH, resourceVersion=await created(api), headers=OPERATOR) as watch,
    ):
        first, second = await hold(api), await hold(api, user="*")
        await write(api, "1", "2")
        await release(api, first)
        assert (await state(api, second))["pending"] == 2
        await release(api, second, 1)
        assert texts(await watch.take(1)) == ["1"]
        await release(api, second)
        assert texts(await watch.take(1)) == ["2"]


async def test_selectors_decide_what_is_an_event() -> None:
    async with injecting() as api:
        made = await api.create("configmaps", labelled("a", app="web"))
        version = made["metadata"]["resourceVersion"]
        query = {"resourceVersion": version, "labelSelector": "app=web"}
        async with watching(api, PATH, headers=OPERATOR, **query) as watch:
            name = await hold(api)
            await api.create("configmaps", labelled("other", app="db"))  # no event of this watch
            await api.replace("configmaps", labelled("a", app="db"))
            await api.replace("configmaps", labelled("a", app="db", more="x"))
            await api.replace("configmaps", labelled("a", app="web"))
            assert (await state(api, name))["pending"] == 2
            assert await release(api, name, 1) == 1
            assert await watch.types_and_names(1) == [("DELETED", "a")]
            assert await release(api, name, 1) == 1
            assert await watch.types_and_names(1) == [("ADDED", "a")]


async def test_tables_have_their_columns_in_the_first_event() -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.cluster.io"
    async with (
        injecting() as api,
        watching(
            api, PATH, resourceVersion=await created(api), headers={**OPERATOR, "accept": accept}
        ) as watch,
    ):
        name = await hold(api)
        await write(api, "1", "2")
        for number in range(2):
            assert await release(api, name, 1) == 1
            (event,) = await watch.take(1)
            assert bool(event["object"].get("columnDefinitions")) is (number == 0)


async def test_protobuf_is_held_too() -> None:
    async with injecting() as api:
        version = await created(api)
        await hold(api, resources=["configmaps"])
        await write(api, "1", "2")
        found: list[str] = []

        async def watch() -> None:
            for _, shown in await first_events(api, 2, resourceVersion=version):
                found.append(shown.data["text"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await settled()
            assert (await state(api, "hold-1"))["pending"] == 2
            assert await release(api, "hold-1", 2) == 2
        assert found == ["1", "2"]


async def test_held_point_below_the_watch_history_is_expired() -> None:
    async with injecting(watch_history=1) as api:
        version = await created(api)
        async with watching(api, PATH, resourceVersion=version, headers=OPERATOR) as watch:
            name = await hold(api)
            await write(api, "1")
            api.clock.advance(5_000_000)
            await write(api, "2")
            api.clock.advance(5_000_000)
            await release(api, name)
            (event,) = await watch.end()
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_held_watch_that_missed_nothing_does_not_expire() -> None:
    async with injecting(watch_history=1) as api:
        version = await created(api)
        async with watching(api, PATH, resourceVersion=version, headers=OPERATOR) as watch:
            name = await hold(api)
            for number in range(3):
                await api.create("secrets", {"metadata": {"name": f"s{number}"}})
                api.clock.advance(5_000_000)
            await write(api, "1")
            await release(api, name)
            assert texts(await watch.take(1)) == ["1"]


async def test_server_stops_with_held_watches() -> None:
    async with injecting() as api:
        version = await created(api)
        async with watching(api, PATH, resourceVersion=version, headers=OPERATOR) as watch:
            await hold(api)
            await write(api, "1")
            await api.finish()
            assert await watch.end() == []


async def test_held_watches_join_other_faults() -> None:
    async with injecting() as api:
        await set_faults(api, {"match": MATCH, "fault": {"cutWatch": {"afterEvents": 2}}})
        version = await created(api)
        name = await hold(api)
        await write(api, "1", "2", "3")
        async with watching(api, PATH, resourceVersion=version, headers=OPERATOR) as watch:
            for text in ("1", "2"):
                await release(api, name, 1)
                assert texts(await watch.take(1)) == [text]
            assert await watch.end() == []


async def test_mistakes_are_refused() -> None:
    async with injecting() as api:
        wrong: list[tuple[str, str, Any, str]] = [
            ("POST", HOLDS, {"match": {"verbs": ["watch"]}}, "match.verbs: is not a field"),
            ("POST", HOLDS, {"match": {"resources": "pods"}}, "match.resources: must be a list of strings"),
            ("POST", HOLDS, {"macth": {}}, "macth: is not a field; known here are match, name"),
            ("POST", HOLDS, {"name": "a/b"}, "name: must be"),
            ("POST", HOLDS, b'["pods"]', "must be a mapping with match and name"),
        ]
        name = await hold(api)
        wrong.append(("POST", HOLDS, {"name": name}, f"there is a hold {name} already"))
        for events in (0, -1, "1", True, None):
            wrong.append(("POST", f"{HOLDS}/{name}/release", {"events": events}, "the body must be like"))
        wrong.append(("POST", f"{HOLDS}/{name}/release", {"count": 1}, "count: is not a field"))
        for method, path, body, message in wrong:
            refused = (await api.ask(method, path, body)).expect(400)
            assert message in refused["message"], orjson.dumps(refused)
        assert (await api.ask("GET", f"{HOLDS}/none")).status == 404
        assert [one["name"] for one in (await api.ask("GET", HOLDS)).expect(200)["items"]] == [name]
        assert (await api.ask("DELETE", HOLDS)).expect(200)["items"] == []
        assert (await api.ask("DELETE", f"{HOLDS}/{name}")).status == 404

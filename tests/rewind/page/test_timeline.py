"""The timeline in the API: counts per time bucket and the events themselves, among those that the caller may list."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rewound.actors.rewind.moments import rfc3339
from rewound.rewind.page.events import EventReader, Page, Query
from tests.actors.object_store import Document
from tests.gateway.api import ADMIN, ALICE, Api, config_map, served
from tests.gateway.https import Kubeconfig, secure_client, served_securely
from tests.rewind.test_at import allow, remove_before, version_of

TIMELINE = "/apis/rewound.cluster.io/v1/timeline"
EVENTS = f"{TIMELINE}/events"
MERGE = {"content-type": "application/merge-patch+json"}
HOUR = 3600 * 1_000_000


async def ask(api: Api, path: str = TIMELINE, **query: Any) -> Document:
    return (await api.ask("GET", path, **query)).expect(200)


def named(events: Document) -> list[str]:
    return [item["name"] for item in events["items"]]


async def story(api: Api) -> int:
    """Create a ConfigMap, change it ten seconds later, delete it after ten more. Returns the time of the first."""
    api.clock.advance(3600)
    began = api.clock.now()
    path = api.path("configmaps", name="web")
    await api.create("configmaps", config_map("web", color="blue"), fieldManager="maker")
    api.clock.advance(10)
    (await api.ask("PATCH", path, {"data": {"color": "red"}}, headers=MERGE)).expect(200)
    api.clock.advance(10)
    await api.delete("configmaps", "web")
    api.clock.advance(10)
    return began


async def test_counts_per_bucket_type_and_change() -> None:
    async with served() as api:
        began = await story(api)
        found = await ask(api, **{"from": rfc3339(began - 5_000_000), "to": rfc3339(began + 25_000_000)})
        assert (found["kind"], found["width"]) == ("Timeline", 100_000)
        (row,) = found["rows"]
        assert (row["type"], row["namespace"], row["total"]) == ("configmaps", "", 3)
        of_all = await ask(api, f"{TIMELINE}/objects", type="cm", **{"from": rfc3339(began - 5_000_000)})
        assert row["objects"] == of_all["total"]
        cells = [row["cells"][at : at + 4] for at in range(0, len(row["cells"]), 4)]
        begin = [found["start"] + bucket * found["width"] for bucket, *_ in cells]
        assert begin == [began - began % 100_000 + seconds * 1_000_000 for seconds in (0, 10, 20)]
        assert [counts for _, *counts in cells] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        assert found["newest"]["version"] == await api.head()


async def test_many_rows_get_wider_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.rewind.page.handler.MAX_CELLS", 2)
    monkeypatch.setattr("rewound.rewind.page.handler.MAX_ROWS", 1)
    async with served() as api:
        began = await story(api)
        await api.create("secrets", {"metadata": {"name": "one"}})
        found = await ask(api, **{"from": rfc3339(began - 5_000_000), "to": rfc3339(began + 35_000_000)})
        assert found["rowsLeftOut"] == 1
        (row,) = found["rows"]
        assert (row["type"], row["total"]) == ("configmaps", 3)
        # Wide enough for the three events, which are ten seconds apart, to be in two buckets.
        assert found["width"] >= 10_000_000
        assert found["start"] + found["width"] * found["buckets"] >= began + 35_000_000
        assert len(row["cells"]) == 8
        assert sum(row["cells"]) - row["cells"][0] - row["cells"][4] == 3


async def test_events_newest_first_in_pages() -> None:
    async with served() as api:
        began = await story(api)
        span = {"from": rfc3339(began), "to": rfc3339(api.clock.now())}
        page = await ask(api, EVENTS, limit=2, **span)
        assert [item["change"] for item in page["items"]] == ["deleted", "updated"]
        first, second = page["items"]
        assert (first["verb"], first["user"], first["type"], first["namespace"]) == (
            "delete",
            "admin",
            "configmaps",
            "default",
        )
        assert first["micros"] == began + 20_000_000
        assert second["fieldManager"] == "test"
        rest = await ask(api, EVENTS, limit=2, **span, **{"continue": page["metadata"]["continue"]})
        assert [item["fieldManager"] for item in rest["items"]] == ["maker"]
        assert "continue" not in rest["metadata"]
        oldest_first = await ask(api, EVENTS, order="ascending", limit=1, **span)
        assert oldest_first["items"] == rest["items"]
        following = {"continue": oldest_first["metadata"]["continue"]}
        again = await ask(api, EVENTS, order="ascending", limit=5, **span, **following)
        assert again["items"] == page["items"][::-1]
        assert again["upto"] == await api.head()


async def test_contents_are_those_after_each_event() -> None:
    async with served() as api:
        began = await story(api)
        span = {"from": rfc3339(began), "to": rfc3339(api.clock.now())}
        events = await ask(api, EVENTS, contents="true", **span)
        assert [item["object"]["data"]["color"] for item in events["items"]] == ["red", "red", "blue"]
        versions = [item["object"]["metadata"]["resourceVersion"] for item in events["items"]]
        assert versions == [item["version"] for item in events["items"]]


async def test_filters_select_counts_and_events() -> None:
    async with served() as api:
        began = await story(api)
        await api.create("namespaces", {"metadata": {"name": "other"}})
        await api.create("configmaps", config_map("web-2"), "other")
        span = {"from": rfc3339(began)}

        async def found(**query: Any) -> list[str]:
            return [
                f"{item['verb']} {item['name']}"
                for item in (await ask(api, EVENTS, **span, **query))["items"]
            ]

        async def total(**query: Any) -> int:
            return sum(row["total"] for row in (await ask(api, **span, **query))["rows"])

        both = {"type": "configmaps", "name": "web*"}
        for query, expected in (
            ({"name": "web"}, ["delete web", "patch web", "create web"]),
            ({"name": "web", "verb": "patch"}, ["patch web"]),
            (both, ["create web-2", "delete web", "patch web", "create web"]),
            (both | {"namespace": "other"}, ["create web-2"]),
            (both | {"user": "admin", "verb": "delete"}, ["delete web"]),
            (both | {"user": "nobody"}, []),
            (both | {"type": "pods"}, []),
        ):
            assert await found(**query) == expected
            assert await total(**query) == len(expected)
        rows = (await ask(api, by="both", type="configmaps", **span))["rows"]
        assert [(row["type"], row["namespace"]) for row in rows] == [
            ("configmaps", "default"),
            ("configmaps", "other"),
        ]
        rows = (await ask(api, by="namespace", namespace="other", **span))["rows"]
        assert [(row["type"], row["namespace"]) for row in rows] == [("", "other")]


async def test_shows_only_what_the_caller_may_list() -> None:
    async with served() as api:
        began = await story(api)
        await api.create("secrets", {"metadata": {"name": "hidden"}})
        span = {"from": rfc3339(began)}

        async def seen(**query: Any) -> list[Document]:
            items: list[Document] = (await ask(api, EVENTS, token=ALICE, **span, **query))["items"]
            total = sum(row["total"] for row in (await ask(api, token=ALICE, **span, **query))["rows"])
            assert total == len(items)
            return items

        assert await seen() == await seen(namespace="default") == []
        for path in (TIMELINE, EVENTS):
            assert not {"newest", "oldest"} & (await ask(api, path, token=ALICE)).keys()
        assert (await ask(api, EVENTS, token=ALICE))["upto"] == "0"
        rule = {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["list", "get"]}
        await allow(api, rule)
        # As with a list, reading all namespaces needs a right in all namespaces.
        assert await seen() == []
        items = await seen(namespace="default")
        assert [item["name"] for item in items] == ["web"] * 3
        assert not any({"user", "fieldManager"} & item.keys() for item in items)
        assert await seen(namespace="default", user="admin") == []
        types = (await ask(api, f"{TIMELINE}/types", token=ALICE, namespace="default"))["items"]
        assert [one["type"] for one in types] == ["configmaps"]
        history = {"apiGroups": [""], "resources": ["configmaps/history"], "verbs": ["get"]}
        await allow(api, history, "historian")
        assert [item["user"] for item in await seen(namespace="default", user="admin")] == ["admin"] * 3
        await allow(api, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["rewind"]}, "rewinder")
        assert [item["name"] for item in await seen(namespace="default")] == ["hidden", *["web"] * 3]


async def test_a_client_certificate_signs_in(tmp_path: Path) -> None:
    async with served_securely() as api:
        await story(api)
        context = Kubeconfig(api.settings.kubeconfig).context(tmp_path)
        async with secure_client(api, context) as client:
            assert (await client.get("/debug/journal/")).status_code == 200
            types = (await client.get(f"{TIMELINE}/types")).json()
            assert types["user"] != "system:anonymous"
            assert "configmaps" in [one["type"] for one in types["items"]]
            assert named((await client.get(f"{EVENTS}?name=web")).json()) == ["web"] * 3


async def test_unknown_callers_get_nothing() -> None:
    async with served() as api:
        await story(api)
        for path in (TIMELINE, EVENTS, f"{TIMELINE}/types"):
            assert (await api.ask("GET", path, token=None)).status == 403
            assert (await api.ask("GET", path, token="wrong")).status == 401
            refused = (await api.ask("GET", f"{path}?token=admin-token", token=None)).expect(403)
            assert "web" not in str(refused)
            refused = (await api.ask("GET", f"{path}?token=admin-token")).expect(400)
            assert (
                refused["message"] == "token: tokens are not accepted in a URL: send the header Authorization"
            )


async def test_waits_for_the_next_event() -> None:
    async with served() as api:
        after = int(await api.head()) + 1
        pages: list[Document] = []

        async def follow() -> None:
            query = {"from": after, "order": "ascending", "wait": 30, "type": "configmaps"}
            pages.append(await ask(api, EVENTS, **query))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await api.create("secrets", {"metadata": {"name": "other"}})
            made = await api.create("configmaps", config_map("new"))
        assert named(pages[0]) == ["new"]
        assert pages[0]["upto"] == version_of(made)


async def test_waits_for_a_while_only(mock_clock: trio.testing.MockClock) -> None:
    async with served() as api, trio.open_nursery() as nursery:
        after = int(await api.head()) + 1
        pages: list[Document] = []

        async def follow() -> None:
            path = f"{EVENTS}?order=ascending&wait=20&from={after}"
            headers = {"authorization": f"Bearer {ADMIN}"}
            pages.append((await api.client.get(path, headers=headers, timeout=None)).json())

        nursery.start_soon(follow)
        with trio.fail_after(5_000):
            while not pages:
                mock_clock.jump(0.1)
                await trio.lowlevel.checkpoint()
                time.sleep(0.001)  # the request reads in threads, which take real time
        assert pages[0]["items"] == []
        assert pages[0]["upto"] == await api.head()


async def test_a_stop_does_not_wait_for_followers() -> None:
    async with served() as api:
        after = int(await api.head()) + 1
        path = f"{EVENTS}?order=ascending&wait=30&from={after}"
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with api.client.stream("GET", path, headers=headers, timeout=None) as response:
            assert response.status_code == 200  # and the body is still to come
            with trio.fail_after(20):
                api.stop.set()
                assert (await response.aread()).startswith(b'{"kind":"TimelineEvents"')
                await api.stopped.wait()


async def test_few_requests_of_a_user_wait_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.rewind.page.events.MAX_WAITING_OF_USER", 1)
    async with served() as api:
        path = f"{EVENTS}?order=ascending&wait=30&from={int(await api.head()) + 1}"
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with api.client.stream("GET", path, headers=headers, timeout=None) as response:
            await trio.testing.wait_all_tasks_blocked()
            refused = await api.ask("GET", path)
            assert "too many requests wait for events already" in refused.expect(429)["message"]
            other = {"authorization": f"Bearer {ALICE}"}
            async with api.client.stream("GET", path, headers=other, timeout=None) as of_other:
                assert of_other.status_code == 200
            await api.create("configmaps", config_map("new"))
            assert b'"new"' in await response.aread()
        async with api.client.stream("GET", f"{path}0", headers=headers, timeout=None) as response:
            assert response.status_code == 200


async def test_requests_look_rarely_for_what_their_user_does_not_see(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    read = EventReader.read

    async def counted(self: EventReader, wanted: Query) -> Page:
        nonlocal looks
        looks += 1
        return await read(self, wanted)

    monkeypatch.setattr(EventReader, "read", counted)
    async with served() as api:
        path = f"{EVENTS}?order=ascending&wait=30&type=configmaps&from={int(await api.head()) + 1}"
        for token, expected in ((ADMIN, 2), (ALICE, 1)):  # she may list nothing
            looks = 0
            headers = {"authorization": f"Bearer {token}"}
            async with api.client.stream("GET", path, headers=headers, timeout=None) as response:
                assert response.status_code == 200
                for number in range(5):
                    await api.create("secrets", {"metadata": {"name": f"{token}-{number}"}})
                    await trio.testing.wait_all_tasks_blocked()
                assert looks == expected


async def test_what_retention_removed_is_not_shown() -> None:
    async with served() as api:
        began = await story(api)
        versions = [int(item["version"]) for item in (await ask(api, EVENTS, name="web"))["items"]]
        await remove_before(api, versions[1])
        events = await ask(api, EVENTS, type="configmaps", **{"from": rfc3339(began - HOUR)})
        assert named(events) == ["newest", "web"]
        assert int(events["oldest"]["version"]) == versions[1] + 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("buckets=0", "buckets: Invalid value: 0: must be between 1 and 2000"),
        ("buckets=x", "buckets"),
        ("from=12", "from: a timeline has times"),
        ("from=2024-01-02T00:00:00Z&to=2024-01-01T00:00:00Z", "from: must be before to"),
        ("by=name", "by: must be one of type, namespace, both"),
        ("namespace=a" + "".join(f"&namespace={n}" for n in range(20)), "namespace: at most 20 of them"),
        ("name=" + "x" * 600, "name: must not have more than 512 characters"),
    ],
)
async def test_refused_parameters(query: str, message: str) -> None:
    async with served() as api:
        refused = (await api.ask("GET", f"{TIMELINE}?{query}")).expect(400)
        assert message in refused["message"]


async def test_refused_requests() -> None:
    async with served() as api:
        assert (await api.ask("POST", TIMELINE, {})).status == 405
        assert (await api.ask("GET", f"{TIMELINE}/other")).status == 404
        assert (await api.ask("GET", "/apis/rewound.cluster.io/v2/timeline")).status == 404
        for query in ("wait=5", "order=ascending&wait=31", "order=ascending&wait=5&contents=1", "continue=x"):
            assert (await api.ask("GET", f"{EVENTS}?{query}")).status == 400
        refused = (await api.ask("GET", f"{EVENTS}?limit=0")).expect(400)
        assert "limit: Invalid value: 0: must be at least 1" in refused["message"]


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


async def define_widgets(api: Api) -> None:
    """A custom kind whose objects may have any content."""
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    await api.create("customresourcedefinitions", definition)
    with trio.fail_after(60):
        while (await api.ask("GET", WIDGETS)).status == 404:
            await trio.lowlevel.checkpoint()


def widget(name: str, **content: Any) -> Document:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **content}


async def test_custom_kinds_have_a_timeline() -> None:
    async with served(dialect="kubernetes") as api:
        await define_widgets(api)
        (await api.ask("POST", WIDGETS, widget("w"))).expect(201)
        for name in ("widgets.example.com", "wd", "Widget"):
            assert named(await ask(api, EVENTS, type=name)) == ["w"]


async def test_objects_with_any_content() -> None:
    """Summaries, lifelines and comparisons describe what they can of objects that do not have the usual fields."""
    async with served(dialect="kubernetes") as api:
        await define_widgets(api)
        before = await api.head()
        conditions = [{"type": f"C{number}", "status": {"a": [number]}} for number in range(5000)]
        deep: Any = {}
        for _ in range(200):
            deep = {"d": deep}
        contents: tuple[Document, ...] = (
            {"status": {"phase": {"a": 1}, "conditions": conditions}},
            {"status": {"conditions": [{"type": ["Ready"]}, 7, None]}, "spec": [1]},
            {"status": "Running", "spec": {"replicas": {}, "containers": 3}},
            {"status": {"phase": "\u2028<script>" * 50}, "spec": deep},
        )
        for number, content in enumerate(contents):
            made = (await api.ask("POST", WIDGETS, widget(f"w{number}", **content))).expect(201)
            changed = widget(f"w{number}", **contents[number - 1])
            changed["metadata"] = made["metadata"]
            (await api.ask("PUT", f"{WIDGETS}/w{number}", changed)).expect(200)
        events = await ask(api, EVENTS, type="wd", summary="true")
        assert all(len(item["summary"]["changes"]) <= 3 for item in events["items"])
        lives = await ask(api, f"{TIMELINE}/objects", type="wd")
        assert sorted(named(lives)) == ["w0", "w1", "w2", "w3"]
        assert all(len(words) <= 40 for life in lives["items"] for _, words, _ in life["phases"])
        compared = await ask(api, f"{TIMELINE}/comparison", type="wd", **{"from": before})
        assert compared["counts"]["added"] == 4
        for document in (events, lives, compared):
            assert len(str(document)) < 20_000


async def test_openapi_describes_the_timeline() -> None:
    async with served() as api:
        await story(api)
        document = (await api.ask("GET", "/openapi/v3/apis/rewound.cluster.io/v1")).expect(200)
        schemas = {
            name.split("rewound.v1.")[-1]: one for name, one in document["components"]["schemas"].items()
        }
        for path, name in (
            (TIMELINE, "Timeline"),
            (EVENTS, "TimelineEvents"),
            (f"{TIMELINE}/objects", "TimelineObjects"),
            (f"{TIMELINE}/comparison?from=1", "TimelineComparison"),
            (f"{TIMELINE}/types", "TimelineTypes"),
        ):
            assert f"rewound.v1.{name}" in str(
                document["paths"][path.partition("?")[0]]["get"]["responses"]["200"]
            )
            described = schemas[name]["properties"].keys()
            assert (await ask(api, path)).keys() - {"kind", "apiVersion"} <= described
        (event, *_) = (await ask(api, EVENTS, contents="true"))["items"]
        assert event.keys() <= schemas["TimelineEvent"]["properties"].keys()
        (life, *_) = (await ask(api, f"{TIMELINE}/objects"))["items"]
        assert life.keys() == schemas["TimelineObject"]["properties"].keys()

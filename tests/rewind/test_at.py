"""`?at=` reads objects as they were at a version or a time, over the whole retained journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from rewound.actors.rewind.moments import rfc3339
from rewound.journal import Journal, retention
from tests.actors.object_store import WATCH_HISTORY, Document, Refused
from tests.api.access.test_access_to_the_past import RBAC
from tests.gateway.api import ADMIN, ALICE, Api, config_map, names, served

PATH = "/api/v1/namespaces/default/configmaps"
ACCEPTED = [
    "application/json",
    "application/yaml",
    "application/vnd.cluster.protobuf",
    "application/json;as=Table;g=meta.cluster.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.cluster.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.cluster.io;v=v1",
    "application/json;pretty=1",
]


def version_of(document: Document) -> str:
    return str(document["metadata"]["resourceVersion"])


async def test_old_versions_have_every_representation() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", text="old"))
        await api.create("configmaps", config_map("b"))
        asked = [
            (path, {"accept": accept})
            for path in (PATH, f"{PATH}/a", "/api/v1/configmaps?labelSelector=!x")
            for accept in ACCEPTED
            if not accept.endswith(_OTHER if path == f"{PATH}/a" else _SINGLE)
        ]
        at = await api.head()
        present = [await api.ask("GET", path, headers=headers) for path, headers in asked]
        await api.replace("configmaps", config_map("a", text="new"))
        await api.delete("configmaps", "b")
        await api.create("configmaps", config_map("c"))
        for (path, headers), before in zip(asked, present, strict=True):
            past = await api.ask("GET", f"{path}{'&' if '?' in path else '?'}at={at}", headers=headers)
            assert (past.status, past.body) == (200, before.body), (path, headers)
            assert past.headers["content-type"] == before.headers["content-type"]
            assert (await api.ask("GET", path, headers=headers)).body != before.body


async def test_ages_are_those_of_that_moment() -> None:
    async with served() as api:
        made = api.clock.now()
        await api.create("configmaps", config_map("a"))
        api.clock.advance(90)
        at = version_of(await api.create("configmaps", config_map("b")))
        api.clock.advance(7200)
        (await api.ask("POST", PATH, config_map("c"))).expect(201)

        async def ages(query: str, path: str = PATH) -> list[tuple[str, str]]:
            found: list[tuple[str, str]] = []
            token = ""
            while True:
                more = f"&continue={token}" if token else ""
                headers = {"accept": "application/json;as=Table;g=meta.cluster.io;v=v1"}
                table = (await api.ask("GET", f"{path}?{query}{more}", headers=headers)).expect(200)
                age = [column["name"] for column in table["columnDefinitions"]].index("Age")
                found += [(row["cells"][0], row["cells"][age]) for row in table["rows"]]
                if not (token := table["metadata"].get("continue", "")):
                    return found

        whole = [("a", "90s"), ("b", "0s")]
        for query in (f"at={at}", f"at={at}&limit=1", f"at={rfc3339(made + 90_000_000)}&limit=1"):
            assert [one for one in await ages(query) if one[0] in "abc"] == whole
        assert await ages(f"at={rfc3339(made + 30_000_000)}", f"{PATH}/a") == [("a", "30s")]
        assert ("a", "121m") in await ages("")
        assert ("a", "121m") in await ages(f"resourceVersion={at}&resourceVersionMatch=Exact")


_SINGLE = "PartialObjectMetadata;g=meta.cluster.io;v=v1"
_OTHER = "PartialObjectMetadataList;g=meta.cluster.io;v=v1"


async def test_old_versions_outlive_the_watch_history() -> None:
    async with served() as api:
        old = version_of(await api.create("configmaps", config_map("a", text="old")))
        await api.replace("configmaps", config_map("a", text="new"))
        api.clock.advance(WATCH_HISTORY * 10)
        await api.delete("configmaps", "a")
        assert (await api.get("configmaps", "a", at=old))["data"] == {"text": "old"}
        listed = await api.list("configmaps", at=old)
        assert (names(listed), version_of(listed)) == (["a"], old)
        with pytest.raises(Refused, match="not found"):
            await api.get("configmaps", "a", at=int(old) - 1)


async def test_state_at_a_time_has_every_event_up_to_it() -> None:
    async with served() as api:
        moments = []
        for text in ("one", "two", "three"):
            await api.ask("PUT", f"{PATH}/a", config_map("a", text=text))
            if text == "one":
                await api.create("configmaps", config_map("a", text=text))
            moments.append(api.clock.now())
            api.clock.advance(3600)
        for moment, text in zip(moments, ("one", "two", "three"), strict=True):
            for zone in ("Z", "+02:00", " 02:00", "%2B02:00", "-03:30"):
                written = quote(time_text(moment, zone), safe="+:%")
                found = await api.ask("GET", f"{PATH}/a?at={written}")
                assert found.expect(200)["data"] == {"text": text}, written
        just_before = time_text(moments[1] - 1, "Z")
        assert (await api.get("configmaps", "a", at=just_before))["data"] == {"text": "one"}


def time_text(micros: int, zone: str) -> str:
    offset = {"Z": 0, "+02:00": 120, " 02:00": 120, "%2B02:00": 120, "-03:30": -210}[zone]
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros, minutes=offset)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + zone


async def test_old_versions_have_selectors_and_pages() -> None:
    async with served() as api:
        for number in range(7):
            labels = {"parity": "even" if number % 2 == 0 else "odd"}
            await api.create(
                "configmaps", {"metadata": {"name": f"n{number}", "labels": labels}, "data": {"v": "old"}}
            )
        at = await api.head()
        await api.delete_collection("configmaps")
        api.clock.advance(WATCH_HISTORY * 3)
        await api.create("configmaps", config_map("n3", text="new"))
        assert names(await api.list("configmaps", at=at, labelSelector="parity=odd")) == ["n1", "n3", "n5"]
        assert names(await api.list("configmaps", at=at, fieldSelector="metadata.name=n4")) == ["n4"]
        page = await api.list("configmaps", at=at, limit=3)
        found, remaining = names(page), [page["metadata"]["remainingItemCount"]]
        while token := page["metadata"].get("continue"):
            api.clock.advance(WATCH_HISTORY * 2)
            await api.create("configmaps", config_map(f"later-{len(found)}"))
            page = await api.list("configmaps", at=at, limit=3, **{"continue": token})
            found += names(page)
            remaining.append(page["metadata"].get("remainingItemCount", 0))
            assert version_of(page) == at
        assert found == [f"n{number}" for number in range(7)]
        assert remaining == [4, 1, 0]


async def test_pages_of_a_time_stay_at_the_version_of_the_first() -> None:
    async with served() as api:
        for name in "abc":
            await api.create("configmaps", config_map(name))
        moment = time_text(api.clock.now(), "Z")
        page = await api.list("configmaps", at=moment, limit=2)
        # The clock stands still: this event has the time for which the pages were requested.
        await api.create("configmaps", config_map("d"))
        following = await api.list(
            "configmaps", at=moment, limit=2, **{"continue": page["metadata"]["continue"]}
        )
        assert names(page) + names(following) == ["a", "b", "c"]


async def test_a_token_belongs_to_one_version_and_namespace() -> None:
    async with served() as api:
        for name in "abc":
            await api.create("configmaps", config_map(name))
        at = int(await api.head())
        token = (await api.list("configmaps", at=at, limit=1))["metadata"]["continue"]
        for query, where in (({"at": at - 1}, "default"), ({"at": at}, "cluster-system")):
            refused = await api.ask(
                "GET", f"/api/v1/namespaces/{where}/configmaps", limit=1, **{"continue": token}, **query
            )
            assert "continue key is not valid: it belongs to a list" in refused.expect(400)["message"]


BAD = (
    "",
    "-1",
    "x",
    "1.5",
    "1e3",
    "٣",
    "2024-05-01",
    "2024-13-01T00:00:00Z",
    "2024-05-01T25:00:00Z",
    "9" * 21,
)
BAD += ("2024-05-01T12:00:00", "0x10", "now", "2024-05-01T12:00:00Z;drop", "a" * 5000)


async def test_bad_moments_are_refused() -> None:
    async with served() as api:
        for value in BAD:
            for path in (PATH, f"{PATH}/a"):
                message = (await api.ask("GET", path, at=value)).expect(400)["message"]
                assert "at: Invalid value: " in message
                assert "must be a resourceVersion, or a time like 2024-05-01T12:03:00Z" in message
                assert len(message) < 300


async def test_the_future_is_refused_and_before_the_first_event_nothing_exists() -> None:
    async with served() as api:
        head = int(await api.head())
        ahead = (await api.ask("GET", PATH, at=head + 1)).expect(400)["message"]
        assert (
            f"at: version {head + 1} is in the future: the newest version of this server is {head}" == ahead
        )
        later = time_text(api.clock.now() + 1, "Z")
        assert "is in the future: it is" in (await api.ask("GET", PATH, at=later)).expect(400)["message"]
        for before in ("0", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z"):
            listed = (await api.ask("GET", "/api/v1/namespaces", at=before)).expect(200)
            assert (listed["items"], listed["metadata"]) == ([], {})
            assert (await api.ask("GET", "/api/v1/namespaces/default", at=before)).status == 404


async def test_versions_that_retention_removed_are_410() -> None:
    async with served() as api:
        old = version_of(await api.create("configmaps", config_map("a", text="old")))
        began = time_text(api.clock.now(), "Z")
        api.clock.advance(7200)
        kept = version_of(await api.replace("configmaps", config_map("a", text="new")))
        await remove_before(api, int(kept))
        for at in (old, began, "0"):
            for path in (PATH, f"{PATH}/a"):
                refused = (await api.ask("GET", path, at=at)).expect(410)
                assert refused["reason"] == "Expired"
                assert (
                    f"at: that is older than the journal keeps: the oldest version is {kept}"
                    in refused["message"]
                )
        assert (await api.get("configmaps", "a", at=kept))["data"] == {"text": "new"}


async def remove_before(api: Api, floor: int) -> None:
    """Raise the retention floor."""
    await api.create("configmaps", config_map("newest"))
    await api.finish()
    journal = Journal.open(api.settings.journal)
    while not retention.advance(journal, floor).done:
        pass
    journal.close()
    await api.start(prepared=True)


REFUSED = [
    ("GET", PATH, "resourceVersion=1", "at: must not be combined with resourceVersion: both"),
    ("GET", f"{PATH}/a", "resourceVersion=0", "at: must not be combined with resourceVersion: both"),
    ("GET", PATH, "resourceVersionMatch=Exact", "must not be combined with resourceVersionMatch"),
    ("GET", PATH, "watch=1", "at: only get and list have it, not watch"),
    ("GET", "/api/v1/watch/configmaps", "x=y", "at: only get and list have it, not watch"),
    ("DELETE", PATH, "x=y", "at: only get and list have it, not deletecollection"),
    ("DELETE", f"{PATH}/a", "x=y", "at: only get and list have it, not delete"),
    ("PUT", f"{PATH}/a", "x=y", "at: only get and list have it, not update"),
    ("GET", PATH, "at=2", "at: expected exactly one value"),
    ("GET", "/api/v1/componentstatuses", "x=y", "at: componentstatuses are never stored"),
    *(
        ("GET", f"/api/v1/namespaces/default/pods/a/{name}", "x=y", f"at: pods/{name} is never stored")
        for name in ("log", "exec", "attach", "portforward")
    ),
    ("POST", "/api/v1/namespaces/default/pods/a/exec", "x=y", "at: only get and list have it, not create"),
]


async def test_combinations_without_a_meaning_are_refused() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        for method, path, query, text in REFUSED:
            body = config_map("a", text="new") if method == "PUT" else None
            refused = await api.ask(method, f"{path}?at=1&{query}", body)
            assert text in refused.expect(400)["message"]
        assert names(await api.list("configmaps")) == ["a"]
        assert "text" not in str(await api.get("configmaps", "a"))


async def test_old_versions_of_secrets_need_the_verb_rewind() -> None:
    async with served() as api:
        await allow(api, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]})
        secret = {"metadata": {"name": "key"}, "stringData": {"password": "leaked"}}
        at = version_of(await api.create("secrets", secret))
        await api.replace("secrets", {**secret, "stringData": {"password": "changed"}})
        path = "/api/v1/namespaces/default/secrets"
        for past in (path, f"{path}/key"):
            assert (await api.ask("GET", past, token=ALICE)).status == 200
            refused = await api.ask("GET", past, token=ALICE, at=at)
            assert 'cannot rewind resource "secrets"' in refused.expect(403)["message"]
            assert "bGVha2Vk" not in refused.text
            assert "bGVha2Vk" in (await api.ask("GET", past, token=ADMIN, at=at)).text
        await allow(api, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["rewind"]}, "rewinder")
        for past in (path, f"{path}/key"):
            assert "bGVha2Vk" in (await api.ask("GET", past, token=ALICE, at=at)).text


async def allow(api: Api, rule: Document, name: str = "reader") -> None:
    await api.create("roles", {"metadata": {"name": name}, "rules": [rule]})
    subject = {"apiGroup": RBAC, "kind": "User", "name": "alice"}
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    await api.create("rolebindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})


async def test_history_needs_the_right_to_read_the_object_today() -> None:
    async with served() as api:
        at = version_of(await api.create("configmaps", config_map("a", text="old")))
        await allow(
            api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["b"]}
        )
        for path in (PATH, f"{PATH}/a", "/api/v1/configmaps"):
            refused = await api.ask("GET", path, token=ALICE, at=at)
            assert refused.status == 403
            assert "old" not in refused.text


async def test_subresources_have_old_versions() -> None:
    async with served() as api:
        container = {"name": "c", "image": "i"}
        pod = await api.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
        at = version_of(pod)
        status = {"metadata": {"name": "p"}, "status": {"phase": "Running"}}
        (await api.ask("PATCH", api.path("pods", name="p") + "/status", status, headers=MERGE)).expect(200)
        path = api.path("pods", name="p") + "/status"
        assert (await api.ask("GET", path, at=at)).expect(200)["status"]["phase"] == "Pending"
        assert (await api.ask("GET", path)).expect(200)["status"]["phase"] == "Running"


MERGE = {"content-type": "application/merge-patch+json"}

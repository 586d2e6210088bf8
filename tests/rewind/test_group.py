"""The group rewound.cluster.io: history, differences, blame, rollback and undelete of objects, over HTTP."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import quote

import trio

from rewound.actors.patch.json_patch import apply_json_patch
from tests.actors.object_store import Document
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.test_at import allow, remove_before, version_of

ROOT = "/apis/rewound.cluster.io/v1"
WEB = f"{ROOT}/namespaces/default/configmaps/web"
MERGE = {"content-type": "application/merge-patch+json"}
TEXT = {"accept": "text/plain"}


async def patch(api: Api, path: str, change: Document, **more: Any) -> Document:
    return (await api.ask("PATCH", path, change, headers=MERGE, **more)).expect(200)


async def story(api: Api) -> list[str]:
    """Create a ConfigMap, change it twice, delete it and create it again; returns all versions."""
    path = api.path("configmaps", name="web")
    made = await api.create("configmaps", config_map("web", color="blue", size="1"), fieldManager="maker")
    api.clock.advance(10)
    red = await patch(api, path, {"data": {"color": "red"}}, fieldManager="painter")
    api.clock.advance(10)
    labels = await patch(api, path, {"metadata": {"labels": {"a.b/c": "x"}}}, fieldManager="labeler")
    await api.delete("configmaps", "web")
    gone = str(int(version_of(labels)) + 1)
    again = await api.create("configmaps", config_map("web", color="green"))
    return [version_of(made), version_of(red), version_of(labels), gone, version_of(again)]


async def test_history_has_all_versions_newest_first_with_exact_patches() -> None:
    async with served() as api:
        versions = await story(api)
        past = [await api.get("configmaps", "web", at=at) for at in versions if at != versions[3]]
        history = (await api.ask("GET", f"{WEB}/history")).expect(200)
        assert (history["kind"], history["apiVersion"]) == ("History", "rewound.cluster.io/v1")
        assert history["object"] == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": "default",
            "name": "web",
        }
        items = history["items"]
        assert [item["version"] for item in items] == versions[::-1]
        assert [item["verb"] for item in items] == ["create", "delete", "patch", "patch", "create"]
        assert [item["fieldManager"] for item in items] == ["test", "test", "labeler", "painter", "maker"]
        assert {item["user"] for item in items} == {"admin"}
        assert items[3]["time"] > items[4]["time"]
        assert items[1]["deleted"] and items[1]["patch"] == [{"op": "remove", "path": ""}]
        assert items[0]["uid"] != items[1]["uid"] == items[4]["uid"]
        documents: list[Any] = [None]
        for item in items[:1:-1]:
            documents.append(patched(documents[-1], item["patch"]))
        assert [without_type(one) for one in past[:3]] == documents[1:]
        quiet = (await api.ask("GET", f"{WEB}/history", managedFields="false")).expect(200)["items"]
        assert quiet[3]["patch"] == [{"op": "replace", "path": "/data/color", "value": "red"}]
        assert quiet[2]["patch"] == [{"op": "add", "path": "/metadata/labels", "value": {"a.b/c": "x"}}]


def patched(before: Any, operations: list[Document]) -> Any:
    if before is None:
        (only,) = operations
        return only["value"]
    return apply_json_patch(copy.deepcopy(before), operations)


def without_type(document: Document) -> Document:
    return {name: value for name, value in document.items() if name not in ("kind", "apiVersion")}


async def test_history_pages() -> None:
    async with served() as api:
        path = api.path("configmaps", name="web")
        await api.create("configmaps", config_map("web"))
        for number in range(9):
            await patch(api, path, {"data": {"n": str(number)}})
        found, token, pages = [], "", 0
        while True:
            query = {"continue": token} if token else {}
            page = (await api.ask("GET", f"{WEB}/history", limit=4, **query)).expect(200)
            found += [int(item["version"]) for item in page["items"]]
            # Later versions do not shift the pages.
            await patch(api, path, {"data": {"later": token}})
            pages += 1
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert pages == 3
        assert found == sorted(found, reverse=True) and len(set(found)) == 10


async def test_history_begins_with_the_version_of_a_moment() -> None:
    async with served() as api:
        made, red, labels, gone, again = await story(api)
        items = (await api.ask("GET", f"{WEB}/history")).expect(200)["items"]
        for to, versions in (
            (labels, [labels, red, made]),
            (items[3]["time"], [red, made]),
            (made, [made]),
            (again, [again, gone, labels, red, made]),
        ):
            found = (await api.ask("GET", f"{WEB}/history", to=to)).expect(200)["items"]
            assert [item["version"] for item in found] == versions
        page = (await api.ask("GET", f"{WEB}/history", to=labels, limit=2)).expect(200)
        token = {"continue": page["metadata"]["continue"]}
        page = (await api.ask("GET", f"{WEB}/history", to=labels, **token)).expect(200)
        assert [item["version"] for item in page["items"]] == [made]
        (await api.ask("GET", f"{WEB}/history", to=str(int(made) - 1))).expect(404)
        for wrong, message in (
            ({"to": "yesterday"}, "to: "),
            ({"to": str(int(again) + 99)}, "is in the future"),
            ({"to": labels, "diff": f"{made}..{red}"}, "has no effect with diff"),
        ):
            assert message in (await api.ask("GET", f"{WEB}/history", **wrong)).expect(400)["message"]


async def test_difference_as_patch_and_as_text() -> None:
    async with served() as api:
        made, red, labels, _, again = await story(api)
        found = (
            await api.ask("GET", f"{WEB}/history", diff=f"{made}..{labels}", managedFields="false")
        ).expect(200)
        assert found["kind"] == "Difference"
        assert (found["from"], found["to"]) == (
            {"version": made, "objectVersion": made},
            {"version": labels, "objectVersion": labels},
        )
        assert found["patch"] == [
            {"op": "add", "path": "/metadata/labels", "value": {"a.b/c": "x"}},
            {"op": "replace", "path": "/data/color", "value": "red"},
        ]
        text = await api.ask("GET", f"{WEB}/history", diff=f"{made}..{labels}", headers=TEXT)
        assert text.headers["content-type"].startswith("text/plain")
        assert text.text == '+ metadata.labels: {"a.b/c":"x"}\n~ data.color: "blue" -> "red"\n'
        back = await api.ask("GET", f"{WEB}/history", diff=f"{red}..{made}", headers=TEXT)
        assert back.text == '~ data.color: "red" -> "blue"\n'
        before = str(int(made) - 1)
        created = (await api.ask("GET", f"{WEB}/history", diff=f"{before}..{made}")).expect(200)
        assert [one["op"] for one in created["patch"]] == ["add"] and "objectVersion" not in created["from"]
        assert (await api.ask("GET", f"{WEB}/history", diff=f"{red}..")).expect(200)["to"][
            "objectVersion"
        ] == again
        assert (
            await api.ask("GET", f"{WEB}/history", diff=f"{made}..{before}", headers=TEXT)
        ).text == "- the object\n"


async def test_blame_names_who_set_each_field() -> None:
    async with served() as api:
        pods = api.path("pods", name="p")
        spec = {"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "one"}]}
        made = version_of(
            await api.create("pods", {"metadata": {"name": "p"}, "spec": spec}, fieldManager="maker")
        )
        strategic = {"content-type": "application/strategic-merge-patch+json"}
        change = {"spec": {"containers": [{"name": "b", "image": "two"}]}}
        changed = (await api.ask("PATCH", pods, change, headers=strategic, fieldManager="upgrader")).expect(
            200
        )
        url = f"{ROOT}/namespaces/default/pods/p/blame"
        blame = (await api.ask("GET", url)).expect(200)
        owners = {one["field"]: one for one in blame["fields"]}
        assert blame["version"] == version_of(changed)
        image = owners["spec.containers[name=b].image"]
        assert (image["value"], image["fieldManager"], image["user"], image["verb"]) == (
            "two",
            "upgrader",
            "admin",
            "patch",
        )
        assert image["path"] == "/spec/containers/1/image" and image["version"] == version_of(changed)
        assert owners["spec.containers[name=a].image"]["version"] == made
        assert owners["spec.containers[name=b].name"]["fieldManager"] == "maker"
        assert not any("managedFields" in field or "resourceVersion" in field for field in owners)
        old = (await api.ask("GET", url, at=made)).expect(200)
        assert {one["version"] for one in old["fields"]} == {made}
        lines = (await api.ask("GET", url, headers=TEXT)).text.splitlines()
        assert any("upgrader" in line and 'spec.containers[name=b].image: "two"' in line for line in lines)


async def test_history_of_deleted_objects_by_name_and_uid() -> None:
    async with served() as api:
        versions = await story(api)
        await api.delete("configmaps", "web")
        items = (await api.ask("GET", f"{WEB}/history")).expect(200)["items"]
        first_uid = items[-1]["uid"]
        only = (await api.ask("GET", f"{WEB}/history", uid=first_uid)).expect(200)["items"]
        assert [one["version"] for one in only] == versions[3::-1]
        color = {"field": "data.color"}
        for uid, value in ((first_uid, "red"), ("", "green")):
            fields = (await api.ask("GET", f"{WEB}/blame", uid=uid)).expect(200)["fields"]
            assert next(one for one in fields if one["field"] == color["field"])["value"] == value
        for below in ("history", "blame"):
            assert (await api.ask("GET", f"{WEB}/{below}", uid="nobody")).status == 404


async def test_deleted_objects_are_found_by_uid_alone() -> None:
    async with served() as api:
        versions = await story(api)
        uid = (await api.get("configmaps", "web", at=versions[0]))["metadata"]["uid"]
        await api.delete("configmaps", "web")
        place = f"{ROOT}/namespaces/default/configmaps/{uid}"
        found = (await api.ask("GET", f"{place}/history")).expect(200)
        assert found["object"]["name"] == "web"
        assert [one["version"] for one in found["items"]] == versions[3::-1]
        assert (await api.ask("GET", f"{place}/blame")).expect(200)["version"] == versions[2]
        other = uid[:-1] + ("0" if uid[-1] != "0" else "1")
        for path in (f"configmaps/{other}", f"secrets/{uid}", f"pods/{uid}"):
            assert (await api.ask("GET", f"{ROOT}/namespaces/default/{path}/history")).status == 404
        assert (
            await api.ask("GET", f"{ROOT}/namespaces/cluster-system/configmaps/{uid}/history")
        ).status == 404
        # A right for one name does not cover another object that is found by its uid.
        rights = {"apiGroups": [""], "resources": ["configmaps", "configmaps/history"], "verbs": ["get"]}
        await grant(api, [{**rights, "resourceNames": [uid]}])
        refused = (await api.ask("GET", f"{place}/history", token=ALICE)).expect(403)
        assert refused["details"]["name"] == "web"
        assert (await api.ask("POST", f"{place}/undelete", {})).expect(201)["data"] == {
            "color": "red",
            "size": "1",
        }


async def test_history_of_large_objects() -> None:
    """Contents of more than 64 kB are parsed and compared in a thread."""
    async with served() as api:
        data = {f"key-{number}": "x" * 1000 for number in range(200)}
        made = version_of(await api.create("configmaps", {"metadata": {"name": "web"}, "data": data}))
        await patch(api, api.path("configmaps", name="web"), {"data": {"key-7": "changed"}})
        items = (await api.ask("GET", f"{WEB}/history", managedFields="false")).expect(200)["items"]
        assert items[0]["patch"] == [{"op": "replace", "path": "/data/key-7", "value": "changed"}]
        fields = (await api.ask("GET", f"{WEB}/blame")).expect(200)["fields"]
        assert [one["field"] for one in fields if one["version"] != made] == ["data.key-7"]
        assert (await api.ask("POST", f"{WEB}/rollback", {"to": made})).expect(200)["data"] == data
        await api.delete("configmaps", "web")
        assert (await api.ask("POST", f"{WEB}/undelete", {})).expect(201)["data"] == data


async def test_rollback_is_an_update_with_its_reason() -> None:
    async with served() as api:
        made, red, labels, _, again = await story(api)
        await patch(api, api.path("configmaps", name="web"), {"metadata": {"annotations": {"keep": "no"}}})
        rolled = (await api.ask("POST", f"{WEB}/rollback", {"to": red})).expect(200)
        assert rolled["data"] == {"color": "red", "size": "1"}
        assert "annotations" not in rolled["metadata"]
        assert await api.get("configmaps", "web") == rolled
        assert rolled["metadata"]["uid"] != (await api.get("configmaps", "web", at=red))["metadata"]["uid"]
        newest = (await api.ask("GET", f"{WEB}/history", limit=1)).expect(200)["items"][0]
        assert (newest["verb"], newest["reason"]) == ("update", f"rollback to {red}")
        one = (await api.ask("POST", f"{WEB}/rollback", {"to": made, "fields": ["data.color"]})).expect(200)
        assert one["data"] == {"color": "blue", "size": "1"}
        label = 'metadata.labels["a.b/c"]'
        for field in (label, "/metadata/labels/a.b~1c"):
            got = (await api.ask("POST", f"{WEB}/rollback", {"to": labels, "fields": [field]})).expect(200)
            assert got["metadata"]["labels"] == {"a.b/c": "x"}
            gone = (await api.ask("POST", f"{WEB}/rollback", {"to": again, "fields": [field]})).expect(200)
            assert "a.b/c" not in gone["metadata"].get("labels", {})
        head = await api.head()
        dry = (await api.ask("POST", f"{WEB}/rollback?dryRun=All", {"to": again})).expect(200)
        assert dry["data"] == {"color": "green"} and await api.head() == head


async def test_undelete_creates_the_object_again() -> None:
    async with served() as api:
        await story(api)
        first_uid = (await api.ask("GET", f"{WEB}/history")).expect(200)["items"][-1]["uid"]
        assert (await api.ask("POST", f"{WEB}/undelete", {})).expect(409)["reason"] == "AlreadyExists"
        await api.delete("configmaps", "web")
        back = (await api.ask("POST", f"{WEB}/undelete", {})).expect(201)
        assert back["data"] == {"color": "green"}
        assert back["metadata"]["uid"] != first_uid
        newest = (await api.ask("GET", f"{WEB}/history", limit=1)).expect(200)["items"][0]
        assert newest["verb"] == "create" and newest["reason"].startswith("undelete ")
        await api.delete("configmaps", "web")
        older = (await api.ask("POST", f"{WEB}/undelete", {"uid": first_uid})).expect(201)
        assert older["data"] == {"color": "red", "size": "1"}
        assert older["metadata"]["labels"] == {"a.b/c": "x"}


async def test_undelete_drops_owners_that_no_longer_exist() -> None:
    async with served() as api:
        owner = await api.create("configmaps", config_map("owner"))
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        await api.create("configmaps", {"metadata": {"name": "web", "ownerReferences": [reference]}})
        await api.delete("configmaps", "web")
        kept = (await api.ask("POST", f"{WEB}/undelete", {})).expect(201)
        assert kept["metadata"]["ownerReferences"] == [reference]
        await api.delete("configmaps", "web")
        await api.delete("configmaps", "owner", body={"propagationPolicy": "Orphan"})
        with trio.fail_after(60):
            while (await api.ask("GET", api.path("configmaps", name="owner"))).status != 404:
                await trio.lowlevel.checkpoint()  # the garbage collector removes the finalizer
        response = await api.ask("POST", f"{WEB}/undelete", {})
        assert "ownerReferences" not in response.expect(201)["metadata"]
        assert "dropped the owner ConfigMap owner: it does not exist any more" in str(response.warnings)


async def test_writes_pass_admission_and_validation() -> None:
    async with served() as api:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "0"}}}
        await story(api)
        await api.delete("configmaps", "web")
        await api.create("resourcequotas", quota)
        refused = (await api.ask("POST", f"{WEB}/undelete", {})).expect(403)
        assert "exceeded quota: few" in refused["message"]
        immutable = {"metadata": {"name": "fixed"}, "data": {"a": "1"}}
        await api.delete("resourcequotas", "few")
        made = version_of(await api.create("configmaps", immutable))
        await patch(api, api.path("configmaps", name="fixed"), {"data": {"a": "2"}, "immutable": True})
        url = f"{ROOT}/namespaces/default/configmaps/fixed/rollback"
        assert (await api.ask("POST", url, {"to": made})).expect(422)["reason"] == "Invalid"


async def test_cluster_scoped_kinds_groups_and_namespaces() -> None:
    async with served() as api:
        await api.create("nodes", {"metadata": {"name": "one"}})
        assert (await api.ask("GET", f"{ROOT}/nodes/one/history")).expect(200)["items"]
        namespace = (await api.ask("GET", f"{ROOT}/namespaces/default/history")).expect(200)
        assert namespace["object"] == {"apiVersion": "v1", "kind": "Namespace", "name": "default"}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await api.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
        url = f"{ROOT}/namespaces/default/deployments.apps/d"
        assert (await api.ask("GET", f"{url}/history")).expect(200)["object"]["apiVersion"] == "apps/v1"
        assert (await api.ask("GET", f"{url}/blame")).expect(200)["fields"]


async def test_retention_leaves_what_it_must() -> None:
    async with served() as api:
        path = api.path("configmaps", name="web")
        await api.create("configmaps", config_map("web", a="1"))
        floor = version_of(await patch(api, path, {"data": {"b": "2"}}))
        last = version_of(await patch(api, path, {"data": {"c": "3"}}))
        await remove_before(api, int(floor))
        items = (await api.ask("GET", f"{WEB}/history")).expect(200)["items"]
        assert [one["version"] for one in items] == [last, floor]
        assert (items[1]["compacted"], items[1]["patch"]) == (True, None)
        fields = {one["field"]: one for one in (await api.ask("GET", f"{WEB}/blame")).expect(200)["fields"]}
        assert fields["data.a"]["compacted"] and fields["data.b"]["compacted"]
        assert "compacted" not in fields["data.c"]


# Attacks.

NOT_SERVED = [
    f"{ROOT}/configmaps/web/history",
    f"{ROOT}/namespaces/default/nodes/one/history",
    f"{ROOT}/namespaces/default/configmaps.apps/web/history",
    f"{ROOT}/namespaces/default/nonsense/web/history",
    f"{ROOT}/namespaces/default/configmaps/web/future",
    f"{ROOT}/namespaces/default/configmaps/web",
    f"{ROOT}/namespaces/default/configmaps",
    f"{ROOT}/namespaces/default/configmaps/web/history/more",
    f"{ROOT}/componentstatuses/scheduler/history",
    "/apis/rewound.cluster.io/v2/namespaces/default/configmaps/web/history",
]


async def test_wrong_paths_and_methods() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        for path in NOT_SERVED:
            assert (await api.ask("GET", path)).status == 404, path
        for method, below, allowed in (
            ("POST", "history", "GET"),
            ("DELETE", "blame", "GET"),
            ("GET", "rollback", "POST"),
            ("PUT", "undelete", "POST"),
            ("HEAD", "history", "GET"),
        ):
            refused = await api.ask(method, f"{WEB}/{below}")
            assert (refused.status, refused.headers["allow"]) == (405, allowed)
        odd = [
            quote("../../secrets", safe=""),
            "%2e%2e",
            "a%00b",
            "%F0%9F%92%A3",
            "x" * 5000,
            "a%20b",
            "%",
            "..%2F",
        ]
        for name in odd:
            response = await api.ask("GET", f"{ROOT}/namespaces/default/configmaps/{name}/history")
            assert response.status in (400, 404), name
            assert "Traceback" not in response.text


async def test_bad_parameters_are_refused() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        reads = [
            "history?limit=x",
            "history?limit=-1",
            "history?continue=x",
            "history?continue=eyJmcm9tIjoiYSJ9",
        ]
        reads += ["history?continue=eyJmcm9tIjogLTF9", "history?diff=", "history?diff=1", "history?diff=a..b"]
        reads += ["history?diff=1..999999", "history?at=1", "blame?at=x", f"history?uid={'u' * 300}"]
        for query in reads:
            assert (await api.ask("GET", f"{WEB}/{query}")).status == 400, query
        head = await api.head()
        bodies = [
            b"",
            b"{}",
            b"[]",
            b"nonsense",
            b'{"to": []}',
            b'{"to": "x"}',
            b'{"to": "999999"}',
            b'{"to": "1"}',
        ]
        bodies += [
            b'{"to": "%s", "fields": [""]}',
            b'{"to": "%s", "fields": [1]}',
            b'{"to": "%s", "fields": "a"}',
            b'{"to": "%s", "fields": []}',
        ]
        bodies += [b'{"to": "%s", "fields": ["metadata.uid"]}', b'{"to": "%s", "fields": ["metadata"]}']
        bodies += [
            b'{"to": "%s", "fields": ["a..b"]}',
            b'{"to": "%s", "other": 1}',
            b'{"to": "%s", "kind": "Pod"}',
        ]
        bodies += [b'{"to": "%s", "fields": [' + b",".join([b'"a"'] * 101) + b"]}"]
        for body in bodies:
            sent = body.replace(b"%s", head.encode())
            assert (await api.ask("POST", f"{WEB}/rollback", sent)).status == 400, body[:60]
        refused = (await api.ask("POST", f"{WEB}/rollback", {"to": head, "other": 1})).expect(400)
        assert refused["message"].endswith('an unknown field "other"; it may have to and fields')
        assert (await api.ask("POST", f"{WEB}/undelete", b'{"uid": 5}')).status == 400
        assert (
            await api.ask("POST", f"{ROOT}/namespaces/default/configmaps/never/undelete", {})
        ).status == 404
        assert (await api.ask("GET", f"{ROOT}/namespaces/default/configmaps/never/blame")).status == 404
        assert await api.head() == head


async def test_each_right_is_needed() -> None:
    needed = {
        ("GET", "history"): [("get", "configmaps/history"), ("get", "configmaps")],
        ("GET", "blame"): [("get", "configmaps/blame"), ("get", "configmaps")],
        ("POST", "rollback"): [
            ("create", "configmaps/rollback"),
            ("get", "configmaps"),
            ("update", "configmaps"),
        ],
        ("POST", "undelete"): [
            ("create", "configmaps/undelete"),
            ("get", "configmaps"),
            ("create", "configmaps"),
        ],
    }
    async with served() as api:
        made = version_of(await api.create("configmaps", config_map("web", text="hidden")))
        everything = {right for rights in needed.values() for right in rights}
        for (method, below), rights in needed.items():
            body = {"to": made} if below == "rollback" else {} if method == "POST" else None
            for missing in rights:
                rules = [
                    {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
                    for verb, resource in everything
                    if (verb, resource) != missing
                ]
                await grant(api, rules)
                refused = await api.ask(method, f"{WEB}/{below}", body, token=ALICE)
                verb, resource = missing
                assert f'cannot {verb} resource "{resource}"' in refused.expect(403)["message"]
                assert "hidden" not in refused.text
        await grant(api, [{"apiGroups": [""], "resources": [r], "verbs": [v]} for v, r in everything])
        for (method, below), _ in needed.items():
            body = {"to": made} if below == "rollback" else {} if method == "POST" else None
            allowed = await api.ask(method, f"{WEB}/{below}", body, token=ALICE)
            assert allowed.status == (409 if below == "undelete" else 200)


async def grant(api: Api, rules: list[Document]) -> None:
    if (await api.ask("GET", api.path("rolebindings", name="reader"))).status == 404:
        await allow(api, rules[0])
    await api.replace("roles", {"metadata": {"name": "reader"}, "rules": rules})


async def test_history_of_secrets_needs_an_extra_verb() -> None:
    async with served() as api:
        secret = {"metadata": {"name": "key"}, "stringData": {"password": "leaked"}}
        made = version_of(await api.create("secrets", secret))
        await api.replace("secrets", {**secret, "stringData": {"password": "changed"}})
        resources = ["secrets", "secrets/history", "secrets/blame", "secrets/rollback", "secrets/undelete"]
        rule = {"apiGroups": [""], "resources": resources, "verbs": ["get", "create", "update"]}
        await grant(api, [rule])
        url = f"{ROOT}/namespaces/default/secrets/key"
        asked = [("GET", "history", None), ("GET", f"history?diff={made}..", None), ("GET", "blame", None)]
        asked += [("POST", "rollback", {"to": made}), ("POST", "undelete", {})]
        for method, below, body in asked:
            refused = await api.ask(method, f"{url}/{below}", body, token=ALICE)
            assert 'cannot rewind resource "secrets"' in refused.expect(403)["message"]
            assert "bGVha2Vk" not in refused.text
        await grant(api, [{**rule, "verbs": ["get", "create", "update", "rewind"]}])
        assert "bGVha2Vk" in (await api.ask("GET", f"{url}/history", token=ALICE)).text


async def test_group_is_not_listed_among_those_with_resources() -> None:
    """It has no resource: for a group without resources, Python's dynamic client repeats discovery at every lookup."""
    async with served() as api:
        listed = await api.ask("GET", "/apis")
        accept = "application/json;g=apidiscovery.cluster.io;v=v2beta1;as=APIGroupDiscoveryList"
        aggregated = await api.ask("GET", "/apis", headers={"accept": accept})
        groups = listed.expect(200)["groups"]
        for group in groups:
            for version in group["versions"]:
                path = f"/apis/{version['groupVersion']}"
                resources = (await api.ask("GET", path)).expect(200)["resources"]
                assert any("/" not in one["name"] for one in resources), path
        assert {group["name"] for group in groups} == {
            group["metadata"]["name"] for group in aggregated.expect(200)["items"]
        }
        assert "rewound.cluster.io" not in {group["name"] for group in groups}
        assert ROOT in (await api.ask("GET", "/")).expect(200)["paths"]


async def test_group_has_documents_of_discovery_and_openapi() -> None:
    async with served() as api:
        assert (await api.ask("GET", "/apis/rewound.cluster.io")).expect(200)["versions"][0][
            "version"
        ] == "v1"
        resources = (await api.ask("GET", ROOT)).expect(200)["resources"]
        listed = {one["name"]: one for one in resources}
        assert listed["configmaps/history"]["verbs"] == ["get"]
        assert listed["deployments.apps/rollback"] == {
            "name": "deployments.apps/rollback",
            "singularName": "",
            "namespaced": True,
            "kind": "Rollback",
            "verbs": ["create"],
        }
        assert all("/" in name for name in listed) and not any("review" in name for name in listed)
        document = (await api.ask("GET", "/openapi/v3/apis/rewound.cluster.io/v1")).expect(200)
        path = document["paths"][f"{ROOT}/namespaces/{{namespace}}/{{resource}}/{{name}}/rollback"]
        assert "rewound.v1.Rollback" in str(path["post"]["requestBody"])

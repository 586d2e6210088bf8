"""Documents of 500 levels work everywhere, as in Kubernetes v1.25; documents deeper than the limit are refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.actors.golang.json import DEEPEST, dumps
from rewound.gateway.wire.yaml import load
from tests.actors.object_store import Document
from tests.api.custom.kinds import APPLY, DEFINITIONS, GROUP, MERGE, WIDGETS, define, definition, version
from tests.api.webhooks.hooking import hooking, patching
from tests.cases import checking
from tests.gateway.api import Api, served
from tests.gateway.audit.auditing import audited, rules
from tests.gateway.journal_commands import run_journal
from tests.gateway.shared_server import shared

LEVELS = 500
OPEN: Document = {"type": "object", "x-cluster-preserve-unknown-fields": True}
PAST = f"/apis/rewound.cluster.io/v1/namespaces/default/widgets.{GROUP}/deep"


def nested(levels: int, leaf: Any = "x") -> Any:
    """Maps, every third one in a list."""
    for level in range(levels):
        leaf = [leaf] if level % 3 == 2 else {"a": leaf}
    return leaf


def leaf_of(value: Any) -> Any:
    while isinstance(value, dict | list):
        value = value[0] if isinstance(value, list) else value["a"]
    return value


def maps(levels: int, leaf: Any = "x") -> Any:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


def body(spec: Any, **more: Any) -> bytes:
    made = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "deep"}, "spec": spec}
    return dumps({**made, **more})


async def with_widgets(api: Api) -> None:
    await define(api, definition(version(spec=OPEN)))


async def test_deep_objects_can_be_read() -> None:
    spec, path = nested(LEVELS), f"{WIDGETS}/deep"
    async with served() as api:
        await with_widgets(api)
        made = (await api.ask("POST", WIDGETS, body(spec))).expect(201)
        with checking() as case:
            with case("create"):
                assert made["spec"] == spec
            with case("get"):
                assert (await api.ask("GET", path)).expect(200) == made
            with case("pretty"):
                assert (await api.ask("GET", path, pretty="true")).expect(200) == made
            with case("list"):
                assert (await api.ask("GET", WIDGETS)).expect(200)["items"][0]["spec"] == spec
            with case("selector"):
                (one,) = (await api.ask("GET", WIDGETS, fieldSelector="metadata.name=deep")).expect(200)[
                    "items"
                ]
                assert one["spec"] == spec
            with case("table"):
                table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
                await _expect(api, path, table)
                shown = await api.ask("GET", WIDGETS, headers=table, includeObject="Object")
                assert shown.status == 200
            with case("yaml"):
                found = await api.ask("GET", path, headers={"accept": "application/yaml"})
                assert load(found.body).value == made
            with case("watch"):
                found = await api.ask("GET", WIDGETS, watch="1", timeoutSeconds="1")
                assert orjson.loads(found.body.splitlines()[0])["object"]["spec"] == spec
            with case("at"):
                found = await api.ask("GET", path, at=made["metadata"]["resourceVersion"])
                assert found.expect(200)["spec"] == spec


async def _expect(api: Api, path: str, headers: dict[str, str]) -> None:
    (await api.ask("GET", path, headers=headers)).expect(200)


async def test_deep_objects_can_be_written() -> None:
    path = f"{WIDGETS}/deep"
    async with served() as api:
        await with_widgets(api)
        with checking() as case:
            with case("yaml"):
                text = b"apiVersion: %b/v1\nkind: Widget\nmetadata: {name: deep}\nspec: %b\n" % (
                    GROUP.encode(),
                    dumps(nested(LEVELS)),
                )
                made = await api.ask("POST", WIDGETS, text, headers={"content-type": "application/yaml"})
                assert made.expect(201)["spec"] == nested(LEVELS)
            with case("replace"):
                sent = {**made.document, "spec": nested(LEVELS, "y")}
                assert (await api.ask("PUT", path, dumps(sent))).expect(200)["spec"] == sent["spec"]
            with case("merge patch"):
                patch = dumps({"spec": {"m": maps(LEVELS, 1)}})
                found = (await api.ask("PATCH", path, patch, headers=MERGE)).expect(200)
                assert leaf_of(found["spec"]["m"]) == 1
            with case("json patch"):
                operation = {"op": "replace", "path": "/spec/m" + "/a" * LEVELS, "value": 2}
                json_patch = {"content-type": "application/json-patch+json"}
                found = (await api.ask("PATCH", path, dumps([operation]), headers=json_patch)).expect(200)
                assert leaf_of(found["spec"]["m"]) == 2
                operation = {"op": "test", "path": "/spec/m", "value": maps(LEVELS, 2)}
                (await api.ask("PATCH", path, dumps([operation]), headers=json_patch)).expect(200)
            with case("apply"):
                applied = body(maps(LEVELS, 3), metadata={"name": "applied"})
                at = f"{WIDGETS}/applied"
                for status in (201, 200):
                    found = await api.ask("PATCH", at, applied, headers=APPLY, fieldManager="one")
                    assert found.expect(status)["spec"] == maps(LEVELS, 3)
                other = body(maps(LEVELS, 4), metadata={"name": "applied"})
                conflict = await api.ask("PATCH", at, other, headers=APPLY, fieldManager="two")
                assert '"one"' in conflict.expect(409)["message"]
                forced = await api.ask("PATCH", at, other, headers=APPLY, fieldManager="two", force="true")
                assert forced.expect(200)["spec"] == maps(LEVELS, 4)
                empty = body({}, metadata={"name": "applied"})
                pruned = await api.ask("PATCH", at, empty, headers=APPLY, fieldManager="two", force="true")
                pruned.expect(200)
            with case("dry run"):
                sent = body(nested(LEVELS), metadata={"name": "dry"})
                assert (await api.ask("POST", WIDGETS, sent, dryRun="All")).status == 201
            with case("status"):
                assert (await api.ask("DELETE", path)).status == 200
            with case("collection"):
                assert (await api.ask("DELETE", WIDGETS)).status == 200


async def test_deep_objects_have_history() -> None:
    path = f"{WIDGETS}/deep"
    async with served() as api:
        await with_widgets(api)
        made = (await api.ask("POST", WIDGETS, body(maps(LEVELS, 1)))).expect(201)
        changed = dumps({**made, "spec": maps(LEVELS, 2)})
        (await api.ask("PUT", path, changed)).expect(200)
        with checking() as case:
            with case("history"):
                (await api.ask("GET", f"{PAST}/history")).expect(200)
            with case("blame"):
                (await api.ask("GET", f"{PAST}/blame")).expect(200)
            with case("blame as text"):
                assert (await api.ask("GET", f"{PAST}/blame", headers={"accept": "text/plain"})).status == 200
            with case("rollback"):
                to = made["metadata"]["resourceVersion"]
                assert (await api.ask("POST", f"{PAST}/rollback", {"to": to})).expect(200)["spec"] == maps(
                    LEVELS, 1
                )
        await api.finish()
        folder = f"--data-dir={api.settings.data_dir}"
        name, version_shown = f"widgets.{GROUP}", made["metadata"]["resourceVersion"]
        for command in (
            ("history", name, "default/deep", folder),
            ("history", name, "default/deep", "-o", "json", folder),
            ("show", version_shown, folder),
            ("show", version_shown, "-o", "json", folder),
            ("log", folder),
            ("log", "-o", "json", folder),
            ("verify", folder),
        ):
            result = run_journal(*command)
            assert result.code == 0, (command, result.err[-2000:], result.out[-300:])


async def test_deep_documents_of_built_in_kinds_work() -> None:
    async with served() as api:
        revisions = api.path("controllerrevisions")
        data = nested(LEVELS)
        revision = {"metadata": {"name": "r"}, "data": {"deep": data}, "revision": 1}
        with checking() as case:
            with case("raw data"):
                made = await api.ask("POST", revisions, dumps(revision))
                assert made.expect(201)["data"]["deep"] == data
            with case("protobuf"):
                protobuf = {"accept": "application/vnd.cluster.protobuf"}
                assert (await api.ask("GET", f"{revisions}/r", headers=protobuf)).status == 200
            with case("strategic merge patch"):
                strategic = {"content-type": "application/strategic-merge-patch+json"}
                patch = dumps({"data": {"deep": maps(LEVELS, 7)}})
                found = await api.ask("PATCH", f"{revisions}/r", patch, headers=strategic)
                assert found.status in (200, 422)
            with case("unknown field"):
                sent = dumps({"metadata": {"name": "c"}, "nope": data})
                found = await api.ask("POST", api.path("configmaps"), sent)
                found.expect(201)
                assert "unknown field" in found.warnings[0]


@pytest.mark.parametrize("levels", [DEEPEST + 1, 5000, 90_000])
async def test_deeper_documents_are_refused(levels: int) -> None:
    async with served() as api:
        await with_widgets(api)
        (await api.ask("POST", WIDGETS, body({}))).expect(201)
        text = b'{"a":' * levels + b"1" + b"}" * levels
        sent = body("@").replace(b'"@"', text)
        await api.refuse("POST", WIDGETS, sent, 400)
        added = b'[{"op":"add","path":"/spec/a","value":' + text + b"}]"
        json_patch = {"content-type": "application/json-patch+json"}
        for headers, patch in ((MERGE, sent), (APPLY, sent), (json_patch, added)):
            answer = await api.ask("PATCH", f"{WIDGETS}/deep", patch, headers=headers, fieldManager="m")
            assert answer.status in (400, 422), answer.text[:300]
        assert (await api.ask("GET", "/livez")).text == "ok"


async def test_patches_cannot_nest_an_object_deeper_and_deeper() -> None:
    async with served() as api:
        await with_widgets(api)
        (await api.ask("POST", WIDGETS, body({"d": maps(400)}))).expect(201)
        copied = dumps([{"op": "copy", "from": "/spec", "path": "/spec/d" + "/a" * 300}])
        json_patch = {"content-type": "application/json-patch+json"}
        answer = await api.ask("PATCH", f"{WIDGETS}/deep", copied, headers=json_patch)
        assert answer.status in (413, 422) and "deep" in answer.text, answer.text[:300]


async def test_webhooks_review_deep_objects() -> None:
    rule = {"operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["widgets"]}
    changes = patching({"op": "replace", "path": "/spec" + "/a" * LEVELS, "value": 2})
    async with hooking(change=changes) as hooks:
        await with_widgets(hooks.api)
        await hooks.configure("mutating", hooks.hook("m.example.com", "/change", rules=[rule]))
        await hooks.configure("validating", hooks.hook("v.example.com", "/check", rules=[rule]))
        made = (await hooks.api.ask("POST", WIDGETS, body(maps(LEVELS, 1)))).expect(201)
        assert made["spec"] == maps(LEVELS, 2)
        assert [leaf_of(one["object"]["spec"]) for one in hooks.requests] == [1, 2]


async def test_audit_log_has_them() -> None:
    policy = rules("level: RequestResponse", more="omitStages: [RequestReceived]\n")
    async with audited(policy) as audit:
        await with_widgets(audit.api)
        (await audit.api.ask("POST", WIDGETS, body(maps(LEVELS, 1)))).expect(201)
        await audit.api.finish()
        (event,) = (one for one in audit.events if one["requestURI"] == WIDGETS)
        assert event["requestObject"]["spec"] == event["responseObject"]["spec"] == maps(LEVELS, 1)


async def test_deep_schemas() -> None:
    """A schema has two levels for each of its objects."""
    spec: Document = {"type": "string"}
    for _ in range(LEVELS // 2):
        spec = {"type": "object", "properties": {"a": spec}}
    async with served() as api:
        await define(api, definition(version(spec=spec)))
        value = maps(LEVELS // 2)
        assert (await api.ask("POST", WIDGETS, body(value))).expect(201)["spec"] == value
        assert (await api.ask("POST", WIDGETS, body(maps(LEVELS // 2, 7)))).status == 422
        (await api.ask("GET", f"/openapi/v3/apis/{GROUP}/v1")).expect(200)
        assert (await api.ask("GET", DEFINITIONS, headers={"accept": "application/yaml"})).status == 200


async def test_deeper_schemas_are_refused() -> None:
    """Of a built-in kind, including depths that parsers accept but that cannot be stored."""
    async with shared() as api:
        with checking() as case:
            for begin, end, levels in (
                ('{"type":"object","properties":{"a":', "}}", (DEEPEST // 2, 400, 1000, 10_000)),
                ('{"type":"object","allOf":[', "]}", (400, 10_000)),
                ('{"type":"array","items":', "}", (DEEPEST, 800, 10_000)),
            ):
                for count in levels:
                    with case(f"{begin} {count}"):
                        spec = begin * count + '{"type":"object"}' + end * count
                        sent = dumps(definition(version(spec={"@": 1}))).replace(b'{"@":1}', spec.encode())
                        refused = await api.ask("POST", DEFINITIONS, sent, dryRun="All")
                        assert "exceeded max depth" in refused.expect(400)["message"]
                        yaml = {"content-type": "application/yaml"}
                        refused = await api.ask("POST", DEFINITIONS, sent, headers=yaml, dryRun="All")
                        assert f"{DEEPEST} levels" in refused.expect(400)["message"]

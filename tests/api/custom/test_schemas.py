"""A changed schema of a custom kind applies to the next request, to stored objects, and in running watches."""

from __future__ import annotations

from typing import Any

import orjson

from tests.api.custom.kinds import (
    DEFINITIONS,
    GROUP,
    MERGE,
    NAME,
    SPEC,
    WIDGETS,
    change_schema,
    define,
    definition,
    until,
    version,
    widget,
)
from tests.cases import checking
from tests.gateway.api import served
from tests.gateway.shared_server import shared
from tests.gateway.watch.watching import watching

COLOURED: dict[str, Any] = {
    "type": "object",
    "properties": {**SPEC["properties"], "colour": {"type": "string", "default": "red"}},
}


async def test_changed_schema_holds_for_the_next_request() -> None:
    async with served() as api:
        await define(api, definition())
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        await change_schema(api, COLOURED)
        created = (await api.ask("POST", WIDGETS, widget("b"))).expect(201)
        assert created["spec"] == {"size": 1, "colour": "red"}
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["spec"] == {"size": 1, "colour": "red"}
        listed = (await api.ask("GET", WIDGETS)).expect(200)["items"]
        assert [one["spec"]["colour"] for one in listed] == ["red", "red"]
        changed = await api.ask("PATCH", f"{WIDGETS}/a", {"metadata": {"labels": {"x": "1"}}}, headers=MERGE)
        assert changed.expect(200)["metadata"]["generation"] == 1


async def test_stored_fields_that_a_schema_no_longer_has_are_not_shown() -> None:
    async with served() as api:
        await define(api, definition(version(spec=COLOURED)))
        (await api.ask("POST", WIDGETS, widget("a", spec={"size": 1, "colour": "blue"}))).expect(201)
        await change_schema(api, SPEC)
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["spec"] == {"size": 1}
        table = {"accept": "application/json;as=Table;g=meta.cluster.io;v=v1"}
        shown = (await api.ask("GET", WIDGETS, headers=table, includeObject="Object")).expect(200)
        assert shown["rows"][0]["object"]["spec"] == {"size": 1}
        await change_schema(api, COLOURED)
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["spec"]["colour"] == "blue"


async def test_running_watch_continues_with_the_new_schema() -> None:
    async with served() as api:
        await define(api, definition(version("v1"), version("v2", storage=False)))
        path = WIDGETS.replace("/v1/", "/v2/")
        async with watching(api, path) as watch:
            (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
            assert await watch.types_and_names(1) == [("ADDED", "a")]
            coloured = [version("v1", spec=COLOURED), version("v2", storage=False, spec=COLOURED)]
            changed = {"spec": {"versions": coloured}}
            (await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", changed, headers=MERGE)).expect(200)
            (await api.ask("POST", WIDGETS, widget("b"))).expect(201)
            [event] = await watch.take(1)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
            assert event["object"]["apiVersion"] == f"{GROUP}/v2"
            assert event["object"]["spec"]["colour"] == "red"
            (await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")).expect(200)
            rest = await watch.end()
            assert [one["type"] for one in rest][-2:] == ["DELETED", "DELETED"]


async def test_versions_show_what_their_schemas_know() -> None:
    async with served() as api:
        other = {"type": "object", "properties": {"size": {"type": "integer"}, "extra": {"type": "string"}}}
        await define(api, definition(version("v1"), version("v2", storage=False, spec=other)))
        path = WIDGETS.replace("/v1/", "/v2/")
        created = {**widget("a", spec={"size": 1, "extra": "x"}), "apiVersion": f"{GROUP}/v2"}
        assert (await api.ask("POST", path, created)).expect(201)["spec"] == {"size": 1}
        patched = await api.ask("PATCH", f"{WIDGETS}/a", {"spec": {"text": "t"}}, headers=MERGE)
        assert patched.expect(200)["spec"] == {"size": 1, "text": "t"}
        assert (await api.ask("GET", f"{path}/a")).expect(200)["spec"] == {"size": 1}
        labels = {"metadata": {"labels": {"x": "1"}}}
        relabelled = (await api.ask("PATCH", f"{path}/a", labels, headers=MERGE)).expect(200)
        assert relabelled["metadata"]["generation"] == 2


async def test_default_of_a_number_is_written_without_a_fraction() -> None:
    spec = {"type": "object", "properties": {"size": {"type": "number", "default": 0}}}
    async with shared() as api:
        sent = orjson.dumps(definition(version(spec=spec))).replace(b'"default":0', b'"default":1e18')
        response = await api.ask("POST", f"{DEFINITIONS}?dryRun=All", sent)
        assert b'"default":1000000000000000000}' in response.body


async def test_empty_dependencies_are_refused() -> None:
    async with shared() as api:
        sent = definition(version(spec={"type": "object", "dependencies": {}}))
        refused = (await api.ask("POST", f"{DEFINITIONS}?dryRun=All", sent)).expect(422)
        assert "spec.dependencies: Forbidden: dependencies is not supported" in refused["message"].replace(
            "properties[spec]", "spec"
        )


async def test_default_of_an_integer_is_a_64_bit_integer() -> None:
    """As in Go: larger numbers are floats, and floats without a fraction are integers and written as such."""
    path = f"{DEFINITIONS}?dryRun=All"
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 0}}}
    body = orjson.dumps(definition(version(spec=spec)))
    async with shared() as api:
        with checking() as case:
            for text, shown in (
                (b"9223372036854775807", b"9223372036854775807"),
                (b"-9223372036854775808", b"-9223372036854775808"),
                (b"1.0", b"1"),
                (b"1e3", b"1000"),
                (b"9007199254740991.0", b"9007199254740991"),
                *((text, b"") for text in (b"9223372036854775808", b"-9223372036854775809", b"1e19", b"1.5")),
                # Floats that could have lost digits are not integers.
                *((text, b"") for text in (b"1e18", b"-1e18", b"0.1e19", b"9007199254740992.0")),
            ):
                with case(text):
                    sent = body.replace(b'"default":0', b'"default":' + text)
                    response = await api.ask("POST", path, sent)
                    if shown:
                        assert b'"default":' + shown + b"}" in response.body
                    else:
                        message = response.expect(422)["message"]
                        assert message.endswith('"number":  in body must be of type integer: "number"')


async def test_unchanged_value_that_a_later_rule_refuses_is_stored_with_a_warning() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
        made = {**definition(), "apiVersion": "apiextensions.k8s.io/v1"}
        (await api.ask("POST", path.rpartition("/")[0], made)).expect(201)

        async def is_created() -> bool:
            return (await api.ask("POST", WIDGETS, widget("a"))).status == 201

        await until(api, is_created)
        rule = {"rule": "self > 5", "message": "too small"}
        size = {"type": "integer", "x-kubernetes-validations": [rule]}
        spec = {"type": "object", "properties": {"size": size, "text": {"type": "string"}}}
        patch = {"spec": definition(version(spec=spec))["spec"]}
        (await api.ask("PATCH", path, patch, headers=MERGE)).expect(200)
        kept = await api.ask("PATCH", f"{WIDGETS}/a", {"spec": {"text": "x"}}, headers=MERGE)
        kept.expect(200)
        assert kept.warnings == ['299 - "spec.size: Invalid value: 1: too small"']
        refused = await api.ask("PATCH", f"{WIDGETS}/a", {"spec": {"size": 2}}, headers=MERGE)
        assert refused.expect(422)["details"]["causes"][0]["message"] == "Invalid value: 2: too small"
        assert not refused.warnings

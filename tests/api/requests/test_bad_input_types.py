"""Values of the wrong type: a 400 that names the field. Invalid values: a 422 that names the field."""

from __future__ import annotations

import orjson
import pytest

from tests.cases import cases
from tests.gateway.api import config_map, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
WRONG = [
    ({"metadata": []}, "ConfigMap.metadata"),
    ({"metadata": "text"}, "ConfigMap.metadata"),
    ({"metadata": {"name": 1}}, "metadata.name"),
    ({"metadata": {"name": {}}}, "metadata.name"),
    ({"metadata": {"name": "a", "labels": []}}, "metadata.labels"),
    ({"metadata": {"name": "a", "labels": {"x": 1}}}, "metadata.labels"),
    ({"metadata": {"name": "a", "labels": {"x": {"y": "z"}}}}, "metadata.labels"),
    ({"metadata": {"name": "a", "finalizers": "text"}}, "metadata.finalizers"),
    ({"metadata": {"name": "a", "finalizers": [1]}}, "metadata.finalizers"),
    ({"metadata": {"name": "a", "ownerReferences": {}}}, "metadata.ownerReferences"),
    ({"metadata": {"name": "a", "creationTimestamp": "yesterday"}}, '"yesterday"'),
    ({"metadata": {"name": "a", "generation": 1.5}}, "metadata.generation"),
    ({"metadata": {"name": "a"}, "data": "text"}, "ConfigMap.data"),
    ({"metadata": {"name": "a"}, "data": {"k": True}}, "ConfigMap.data"),
    ({"metadata": {"name": "a"}, "binaryData": {"k": "!"}}, "base64"),
    ({"metadata": {"name": "a"}, "immutable": "yes"}, "ConfigMap.immutable"),
    ({"kind": "Secret", "metadata": {"name": "a"}}, "cannot be handled as a ConfigMap"),
    ({"apiVersion": "v2", "metadata": {"name": "a"}}, "(v2) does not match the expected API version (v1)"),
    ({"kind": 1, "metadata": {"name": "a"}}, "apiVersion and kind must be strings"),
    ({"apiVersion": [], "kind": {}, "metadata": {"name": "a"}}, "ConfigMap"),
]


@cases(("body", "expected"), WRONG)
@cases("method", ["POST", "PUT"])
async def test_values_of_the_wrong_type_are_refused(method: str, body: dict, expected: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a", text="kept"))
        path = PATH if method == "POST" else f"{PATH}/a"
        assert expected in await api.refuse(method, path, orjson.dumps(body), 400)


@cases("name", ["", "A", "a_b", "a/b", ".", "..", "-a", "a-", "a..b", "ü", "a\0b", "x" * 254, " a", "a\n"])
async def test_invalid_names_are_refused(name: str) -> None:
    async with shared() as api:
        body = orjson.dumps({"metadata": {"name": name}})
        assert "metadata.name: " in await api.refuse("POST", PATH, body, 422)


@pytest.mark.parametrize(("count", "more"), [(500, "400"), (2_000, "many")])
async def test_number_of_reported_errors_is_limited(count: int, more: str) -> None:
    async with served() as api:
        references = [{"kind": "K", "name": f"s{number}", "uid": "u"} for number in range(count)]
        body = orjson.dumps({"metadata": {"name": "a", "ownerReferences": references}})
        message = await api.refuse("POST", PATH, body, 422)
        assert message.endswith(f", and {more} more]")
        status = (await api.ask("POST", PATH, body)).expect(422)
        assert len(status["details"]["causes"]) == 100


async def test_duplicate_error_is_reported_once() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        body = orjson.dumps({"metadata": {"name": "a", "labels": {"a b": "v"}}})
        message = await api.refuse("PUT", f"{PATH}/a", body, 422)
        assert message.count('"a b"') == 1


async def test_names_that_contradict_the_path_are_refused() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        other = orjson.dumps({"metadata": {"name": "b"}})
        assert "does not match the name on the URL (a)" in await api.refuse("PUT", f"{PATH}/a", other, 400)
        unnamed = orjson.dumps({"metadata": {}})
        assert "name must be provided" in await api.refuse("PUT", f"{PATH}/a", unnamed, 400)
        elsewhere = orjson.dumps({"metadata": {"name": "a", "namespace": "cluster-system"}})
        for method, path in (("POST", PATH), ("PUT", f"{PATH}/a")):
            assert "namespace" in await api.refuse(method, path, elsewhere, 400)

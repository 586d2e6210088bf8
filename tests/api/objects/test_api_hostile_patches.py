"""Patches that would exhaust memory or time are refused, and delay no other request."""

from __future__ import annotations

import orjson
import pytest
import trio

from tests.gateway.api import Api, config_map, served

PATH = "/api/v1/namespaces/default/configmaps/a"
JSON, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def operations(*one: dict[str, object], times: int = 10_000) -> bytes:
    return orjson.dumps(list(one) * (times // len(one)))


HOSTILE = [
    pytest.param(JSON, operations({"op": "test", "path": ""}, times=10_001), 413, id="operations"),
    pytest.param(
        JSON, operations({"op": "copy", "from": "/data", "path": "/data/x"}), 422, id="copies-nested"
    ),
    pytest.param(
        JSON, operations({"op": "copy", "from": "/data/k", "path": "/data/x"}), 422, id="copies-repeated"
    ),
    pytest.param(
        JSON,
        b'[{"op":"add","path":"/x","value":['
        + b"0," * 1_000_000
        + b"0]},"
        + operations({"op": "add", "path": "/x/0", "value": 0}, times=9_000)[1:],
        413,
        id="long-list",
    ),
    pytest.param(
        JSON,
        operations(
            {"op": "move", "from": "/data", "path": "/x"},
            {"op": "add", "path": "/data", "value": {}},
            {"op": "move", "from": "/x", "path": "/data/x"},
        ),
        413,
        id="nesting-by-moves",
    ),
    pytest.param(MERGE, b'{"a":' * 500_000 + b"1" + b"}" * 500_000, 413, id="nesting"),
    pytest.param(STRATEGIC, b'{"a":' * 620 + b"1" + b"}" * 620, 400, id="nesting-strategic"),
    pytest.param(
        APPLY, b'{"apiVersion":"v1","kind":"ConfigMap","a":' + b"[" * 1_000_000, 413, id="nesting-apply"
    ),
    pytest.param(MERGE, b'{"data":[' + b"[]," * 900_000 + b"[]]}", 413, id="brackets"),
    pytest.param(MERGE, b'{"data":{' + b'"a":1,' * 400_000 + b'"a":1}}', 413, id="duplicates"),
    pytest.param(
        MERGE, b'{"data":{"k":"' + b"x" * 2_500_000 + b'"}}', 422, id="more-than-a-config-map-holds"
    ),
    pytest.param(MERGE, b'{"data":{"k":"' + b"x" * 3_500_000 + b'"}}', 413, id="more-than-a-body"),
]


@pytest.mark.parametrize(("media", "body", "status"), HOSTILE)
async def test_hostile_patch_is_refused_while_others_are_served(media: str, body: bytes, status: int) -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a", k="v" * 1000))
        await api.create("configmaps", config_map("b", k="v"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_serve_others, api)
            response = await api.ask("PATCH", PATH, body, headers={"content-type": media}, fieldManager="m")
        assert response.status == status, response.text[:500]
        assert len(response.body) < 20_000
        assert await api.get("configmaps", "a") == made


async def _serve_others(api: Api) -> None:
    for number in range(5):
        await api.replace("configmaps", config_map("b", k=str(number)))
        assert (await api.get("configmaps", "b"))["data"] == {"k": str(number)}

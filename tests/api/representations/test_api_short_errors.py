"""The response to a bad body is at most 64 kB, however long the names, values and errors of the body are."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.gateway.pipeline.errors import MAX_BYTES, Failure
from tests.gateway.api import config_map, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
LONG = "\x01ä" * 150_000
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
MANY = {f"{'u' * 2000}{number}": 1 for number in range(300)}

BODIES: list[Any] = [
    pytest.param("POST", {"metadata": {"name": LONG}}, "application/json", id="name"),
    pytest.param("POST", {"metadata": {"name": "b", "labels": {LONG: LONG}}}, "application/json", id="label"),
    pytest.param("POST", {"metadata": {"name": "b"}, "data": {LONG: 1}}, "application/json", id="type"),
    pytest.param("POST", {"metadata": {"name": "b"}, **MANY}, "application/json", id="unknown"),
    pytest.param("POST", {"kind": LONG, "metadata": {"name": "b"}}, "application/json", id="kind"),
    pytest.param("PATCH", [{"op": LONG, "path": "/a"}], JSON_PATCH, id="operation"),
    pytest.param("PATCH", [{"op": "remove", "path": f"/{LONG}"}], JSON_PATCH, id="path"),
    pytest.param("PATCH", {"data": {"x": [LONG]}}, MERGE, id="patched"),
    pytest.param("PATCH", MANY, MERGE, id="unknown in a patch"),
    pytest.param("DELETE", {"kind": LONG[:10_000]}, "application/json", id="options"),
    pytest.param("DELETE", {"dryRun": ["x"] * 10_000}, "application/json", id="dry run"),
]


@pytest.mark.parametrize(("method", "body", "media"), BODIES)
async def test_error_is_short(method: str, body: Any, media: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        path = PATH if method == "POST" else f"{PATH}/a"
        query = {} if method == "DELETE" else {"fieldValidation": "Strict"}
        response = await api.ask(method, path, orjson.dumps(body), headers={"content-type": media}, **query)
        assert response.status in (400, 422)
        assert len(response.body) <= MAX_BYTES


async def test_warnings_are_short() -> None:
    async with served() as api:
        response = await api.ask("POST", PATH, {"metadata": {"name": "b"}, **MANY})
        assert response.status == 201
        assert sum(map(len, response.warnings)) < 8_000


def test_short_errors_stay_as_they_are() -> None:
    causes = [{"reason": "x", "message": "m" * 500, "field": "f"}] * 100
    document = Failure(422, "Invalid", "m" * 5_000, {"name": "a", "causes": causes}).document()
    assert document["message"] == "m" * 5_000
    assert document["details"]["causes"] == causes


def test_long_errors_say_how_much_they_leave_out() -> None:
    causes = [{"reason": "x", "message": "m" * 500, "field": "f"}] * 1000
    document = Failure(422, "Invalid", "\x01" * 100_000, {"name": "a", "causes": causes}).document()
    assert "... (94000 characters left out) ..." in document["message"]
    kept = len(document["details"]["causes"]) - 1
    assert document["details"]["causes"][-1] == {"message": f"and {1000 - kept} more"}
    assert len(orjson.dumps(document)) <= MAX_BYTES

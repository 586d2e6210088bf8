"""Content-Type selects how a body is decoded; an unknown one is a 415, and nothing is written."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.gateway.api import config_map, names, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
READ = [
    (None, b'{"metadata":{"name":"a"},"data":{"k":"v"}}'),
    ("application/json", b'{"metadata":{"name":"a"},"data":{"k":"v"}}'),
    ("application/json; charset=utf-8", b'{"metadata":{"name":"a"},"data":{"k":"v"}}'),
    ("Application/JSON", b'{"metadata":{"name":"a"},"data":{"k":"v"}}'),
    ("application/yaml", b"metadata:\n  name: a\ndata:\n  k: v\n"),
    ("application/yaml", b'---\n{"metadata":{"name":"a"},"data":{"k":"v"}}\n...\n'),
    ("application/yaml;x=y", b"metadata: &m {name: a}\ndata: {k: v}\n"),
]
NOT_READ = [
    "text/plain",
    "text/yaml",
    "application/xml",
    "application/x-www-form-urlencoded",
    "application/merge-patch+json",
    "json",
    ";",
    "application/json, application/yaml",
]


@pytest.mark.parametrize(("content_type", "body"), READ)
async def test_known_content_types_are_decoded(content_type: str | None, body: bytes) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    async with served() as api:
        made = (await api.ask("POST", PATH, body, headers=headers)).expect(201)
        assert made["data"] == {"k": "v"}
        put = (await api.ask("PUT", f"{PATH}/a", body, headers=headers)).expect(200)
        assert put == made


@cases("content_type", NOT_READ)
async def test_unknown_content_types_are_refused(content_type: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        head = await api.head()
        for method, path in (("POST", PATH), ("PUT", f"{PATH}/a"), ("DELETE", f"{PATH}/a"), ("DELETE", PATH)):
            response = await api.ask(method, path, b"{}", headers={"content-type": content_type})
            status = response.expect(415)
            assert status["reason"] == "UnsupportedMediaType"
            assert "accepted media types include: application/json, application/yaml" in status["message"]
        assert await api.head() == head


async def test_content_type_without_a_body_is_ignored() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        headers = {"content-type": "text/plain"}
        assert (await api.ask("GET", f"{PATH}/a", headers=headers)).status == 200
        assert (await api.ask("DELETE", f"{PATH}/a", headers=headers)).status == 200


async def test_delete_options_may_be_yaml() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        headers = {"content-type": "application/yaml"}
        options = b"kind: DeleteOptions\napiVersion: v1\ndryRun:\n- All\n"
        assert (await api.ask("DELETE", f"{PATH}/a", options, headers=headers)).status == 200
        assert names(await api.list("configmaps")) == ["a"]

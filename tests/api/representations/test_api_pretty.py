"""JSON is indented if the client asks for it or is curl, Wget or a browser; the content is the same."""

from __future__ import annotations

import pytest

from tests.gateway.api import config_map, served

PATH = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("query", "agent", "indented"),
    [
        ("", "client/1", False),
        ("?pretty=true", "client/1", True),
        ("?pretty=1", "client/1", True),
        ("?pretty=false", "client/1", False),
        ("?pretty=0", "client/1", False),
        ("?pretty=perhaps", "client/1", False),
        ("", "curl/8.0", True),
        ("", "Wget/1.2", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("?pretty=false", "curl/8.0", False),
    ],
)
async def test_query_and_user_agent_select_indented_json(query: str, agent: str, indented: bool) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", text="ü"))
        for path in (f"{PATH}/a", PATH, f"{PATH}/missing", "/apis", "/version"):
            plain = await api.ask("GET", path)
            response = await api.ask("GET", path + query, headers={"user-agent": agent})
            assert response.text.startswith('{\n  "') == indented, path
            assert response.text.endswith("\n") != indented
            assert response.document == plain.document
            assert list(response.document) == list(plain.document)


async def test_responses_to_writes_are_indented() -> None:
    async with served() as api:
        made = await api.ask("POST", f"{PATH}?pretty=true", config_map("a"))
        assert made.text.startswith('{\n  "kind": "ConfigMap",\n')
        gone = await api.ask("DELETE", f"{PATH}/a?pretty=true")
        assert gone.text.startswith('{\n  "kind": "Status",\n')


async def test_yaml_is_not_affected() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        response = await api.ask("GET", f"{PATH}/a?pretty=true", headers={"accept": "application/yaml"})
        assert response.text.startswith("apiVersion: v1\n")

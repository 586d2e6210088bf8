"""HEAD is GET without the body: the same rights, the same status, the same length."""

from __future__ import annotations

import pytest

from tests.gateway.api import config_map, served

PATHS = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/configmaps/missing",
    "/apis",
    "/version",
    "/livez?verbose",
    "/livez/nothing",
]


@pytest.mark.parametrize("path", PATHS)
async def test_head_is_get_without_a_body(path: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", text="x" * 1000))
        got, head = await api.ask("GET", path), await api.ask("HEAD", path)
        assert (head.status, head.body) == (got.status, b"")
        for name in ("content-type", "content-length"):
            assert head.headers[name] == got.headers[name]


async def test_head_needs_the_rights_of_get() -> None:
    async with served() as api:
        assert (await api.ask("HEAD", PATHS[0], token=None)).status == 403
        assert (await api.ask("HEAD", "/livez", token=None)).status == 200

"""/version: the version of the API and of the server."""

from __future__ import annotations

import pytest

from rewound.release import RELEASE
from tests.gateway.shared_server import shared

STRINGS = {
    "major",
    "minor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
}


async def test_version_document_has_all_fields() -> None:
    async with shared() as api:
        version = (await api.ask("GET", "/version", token=None)).expect(200)
        assert set(version) == STRINGS
        assert all(isinstance(value, str) for value in version.values())
        assert (version["major"], version["minor"]) == ("1", "25")
        assert version["gitVersion"].startswith("v1.25.")
        assert version["gitVersion"].endswith(RELEASE)
        assert version["platform"] in ("linux/amd64", "linux/arm64")


@pytest.mark.parametrize(("accept", "code"), [("application/yaml", 200), ("image/png", 406)])
async def test_version_is_negotiated(accept: str, code: int) -> None:
    async with shared() as api:
        response = await api.ask("GET", "/version", headers={"accept": accept})
        assert response.status == code
        if code == 200:
            assert 'major: "1"' in response.text

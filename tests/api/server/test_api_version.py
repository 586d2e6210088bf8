"""/version: the version of the API and of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.store.etcd.copy import CannotJoin
from rewound.journal.errors import NewerKubernetes
from rewound.release import RELEASE
from tests.gateway.api import ON_ETCD, served
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


STATEFUL_SET = {
    "metadata": {"name": "db"},
    "spec": {
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


async def test_newer_version_migrates_the_folder_and_says_so(tmp_path: Path) -> None:
    """Its objects have the form of the new version, and history has the old one; an older version is refused."""
    async with served(tmp_path, dialect="kubernetes", kubernetes_version="1.25") as api:
        before = await api.create("statefulsets", STATEFUL_SET)
        kept = await api.create("configmaps", {"metadata": {"name": "kept"}})
    async with served(tmp_path, dialect="kubernetes", kubernetes_version="1.36") as api:
        after = await api.get("statefulsets", "db")
        assert "persistentVolumeClaimRetentionPolicy" not in before["spec"]
        assert "persistentVolumeClaimRetentionPolicy" in after["spec"]
        assert await api.get("configmaps", "kept") == kept
        version = before["metadata"]["resourceVersion"]
        old = await api.ask("GET", api.path("statefulsets", name="db"), at=version)
        assert old.expect(200)["spec"] == before["spec"]
        found = (await api.ask("GET", "/version")).expect(200)
        assert (found["minor"], found["emulationMinor"], found["minCompatibilityMinor"]) == (
            "36",
            "36",
            "35",
        )
        metrics = (await api.ask("GET", "/metrics")).text
        assert 'minor="36"' in metrics
        assert 'kubernetes_feature_enabled{name="HPAScaleToZero",stage="' in metrics
    refusal = CannotJoin if ON_ETCD else NewerKubernetes
    with pytest.raises((refusal, BaseExceptionGroup)) as refused:
        async with served(tmp_path, dialect="kubernetes", kubernetes_version="1.30"):
            pass
    error = refused.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, refusal)

"""The data folder has journal, certificates and admin.kubeconfig; only its owner can read the keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.api import config_map, served
from tests.gateway.https import served_securely


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_contents_of_the_data_folder() -> None:
    async with served_securely() as api:
        data = api.settings.data_dir
        certificates = ("ca", "server", "admin", "proxy-ca", "proxy")
        assert {path.name for path in data.iterdir()} == {"journal", "pki", "admin.kubeconfig"}
        assert (data / "journal" / "data.mdb").is_file()
        assert {path.name for path in (data / "pki").iterdir()} == {
            "index.json",
            *(f"{name}.{kind}" for name in certificates for kind in ("crt", "key")),
        }


async def test_keys_and_kubeconfig_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """A fresh folder: the server creates every file itself."""
    async with served(tmp_path, secure_port=2) as api:
        data = api.settings.data_dir
        assert {mode(path) for path in (data / "pki").glob("*.key")} == {0o600}
        assert mode(data / "admin.kubeconfig") == 0o600
        assert mode(data / "pki") == 0o700


async def test_start_warns_of_secrets_that_others_can_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of the folder may have lost the modes of its files."""

    def warnings() -> list[str]:
        return [one.getMessage() for one in caplog.records if "others can read" in one.getMessage()]

    async with served(tmp_path, secure_port=2) as api:
        assert warnings() == []
        data = api.settings.data_dir
        data.joinpath("pki", "ca.key").chmod(0o644)  # in a folder that others cannot enter
        await api.restart()
        assert warnings() == []
        data.joinpath("journal", "data.mdb").chmod(0o604)
        for folder in ("journal", "pki"):
            data.joinpath(folder).chmod(0o755)
        await api.restart()
        (warning,) = warnings()
        assert warning.endswith(f"run: chmod 600 {data}/journal/data.mdb {data}/pki/ca.key")


async def test_no_certificates_without_a_secure_port() -> None:
    async with served() as api:
        assert {path.name for path in api.settings.data_dir.iterdir()} == {"journal"}


async def test_restart_keeps_certificates_and_objects() -> None:
    async with served_securely() as api:
        await api.create("configmaps", config_map("a", text="x"))
        data = api.settings.data_dir
        before = {path.name: path.read_bytes() for path in (data / "pki").iterdir()}
        listed = await api.list("configmaps")
        await api.restart()
        assert {path.name: path.read_bytes() for path in (data / "pki").iterdir()} == before
        assert await api.list("configmaps") == listed


async def test_namespaces_are_created_once() -> None:
    async with served() as api:
        namespaces = await api.list("namespaces", None)
        assert [one["metadata"]["name"] for one in namespaces["items"]] == [
            "cluster-node-lease",
            "cluster-public",
            "cluster-system",
            "default",
        ]
        await api.restart()
        assert await api.list("namespaces", None) == namespaces

"""A start that fails leaves the file system as it was."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.gateway.processes import process, refused


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, with the contents of files."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


async def failed(folder: Path, *flags: str) -> str:
    code, error = await refused(folder, *flags)
    assert code in (1, 2), error
    assert "Traceback" not in error
    return error


async def failures(folder: Path, data: Path) -> None:
    """Every kind of failed start on one data folder."""
    where = ("--data-dir", str(data))
    broken = folder / "broken"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "is in use" in await failed(folder, *where, "--insecure-port", port)
        assert "is in use" in await failed(folder, *where, "--secure-port", port)
    assert "line 1" in await failed(folder, *where, "--token-auth-file", str(broken))
    certificate = ("--tls-cert-file", str(broken), "--tls-private-key-file", str(broken))
    assert "cannot be used" in await failed(folder, *where, "--secure-port", "1", *certificate)
    assert "is not a flag" in await failed(folder, *where, "--no-such-flag")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "broken").write_text("neither tokens nor a certificate\n")
    (tmp_path / "tokens.csv").write_text("")
    return tmp_path


async def test_new_folder_is_removed_again(scratch: Path) -> None:
    await failures(scratch, scratch / "outer" / "inner")
    assert {path.name for path in scratch.iterdir()} == {"broken", "tokens.csv"}


async def test_empty_folder_stays_and_stays_empty(scratch: Path) -> None:
    data = scratch / "data"
    data.mkdir()
    await failures(scratch, data)
    assert data.is_dir() and tree(data) == {}


async def test_folder_with_data_keeps_it(scratch: Path) -> None:
    async with process(scratch) as server:
        body = {"metadata": {"name": "kept"}}
        made = await server.client.post("/api/v1/namespaces/default/configmaps", json=body)
        assert made.status_code == 201
        server.signal(signal.SIGTERM)
        assert await server.ended() == 0
    (scratch / "data" / "notes").write_text("mine")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        await failed(scratch, "--insecure-port", str(taken.getsockname()[1]))
    assert {path.name for path in (scratch / "data").iterdir()} == {"journal", "notes"}
    async with process(scratch) as server:
        found = await server.client.get("/api/v1/namespaces/default/configmaps/kept")
        assert found.status_code == 200


async def test_folder_of_a_running_server_is_left_to_it(scratch: Path) -> None:
    async with process(scratch) as server:
        assert "already being written" in await failed(scratch)
        assert (await server.client.get("/api/v1/namespaces")).status_code == 200
        assert (scratch / "data" / "journal" / "data.mdb").exists()

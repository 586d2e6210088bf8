"""A real server under limits of the operating system refuses writes with a clear message, and still serves reads."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import orjson
import pytest
import trio

from tests.actors.object_store import Document
from tests.gateway.api import ADMIN, config_map
from tests.gateway.journal_commands import put, run_journal, write_history
from tests.gateway.plain_client import PlainClient
from tests.gateway.processes import Server, process, refused

PATH = "/api/v1/namespaces/default/configmaps"
MARGIN = 56 << 20  # less than the map needs to grow: 64 MB
LARGE = "x" * 1_000_000
MAX_WRITES = 150


async def write(server: Server, name: str, text: str = "x") -> tuple[int, dict]:
    response = await server.client.post(PATH, json={"metadata": {"name": name}, "data": {"text": text}})
    return response.status_code, response.json()


def limit_memory(server: Server) -> None:
    """Allow the process as much address space as it has, and a little more."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    used = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmSize:"))
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (used + MARGIN, resource.RLIM_INFINITY))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
async def test_address_space_limit_refuses_writes_and_keeps_reads(tmp_path: Path) -> None:
    async with process(tmp_path) as server:
        assert (await write(server, "first"))[0] == 201
        limit_memory(server)
        kept = ["first"]
        for number in range(MAX_WRITES):
            code, status = await write(server, f"c{number}", LARGE)
            if code != 201:
                break
            kept.append(f"c{number}")
        assert code >= 500
        assert "address space" in status["message"]
        for name in (kept[0], kept[-1]):
            assert (await server.client.get(f"{PATH}/{name}")).status_code == 200
        assert (await server.client.get("/livez")).status_code == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    async with process(tmp_path) as server:
        listed = await server.client.get(PATH, params={"limit": "500"})
        assert {item["metadata"]["name"] for item in listed.json()["items"]} >= set(kept)
        assert (await write(server, "after"))[0] == 201


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A separate file system, where mounting one is allowed."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    if os.geteuid() or mount("-t", "tmpfs", "-o", "size=32m", "none", str(folder)):
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True, timeout=120)


def mount(*arguments: str) -> int:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False, timeout=120).returncode
    except FileNotFoundError:
        return 1


async def test_read_only_file_system_is_refused_and_can_be_read(mounted: Path) -> None:
    write_history(mounted / "data", [put("web", {"color": "blue"})])
    (mounted / "tokens.csv").touch()
    assert mount("-o", "remount,ro", str(mounted)) == 0
    try:
        code, errors = await refused_at(mounted)
        assert code == 1
        assert "Read-only file system" in errors and "Traceback" not in errors
        assert run_journal("verify", mounted / "data").lines[-1] == "sound"
        assert "ConfigMap" in run_journal("log", "--data-dir", mounted / "data").out
    finally:
        mount("-o", "remount,rw", str(mounted))


async def refused_at(folder: Path) -> tuple[int, str]:
    own = folder.parent / "tokens"
    own.mkdir()
    return await refused(own, "--data-dir", str(folder / "data"))


@pytest.mark.slow
async def test_full_file_system_refuses_writes_until_there_is_room(mounted: Path) -> None:
    async with process(mounted) as server:
        filler = mounted / "filler"
        assert (await write(server, "first"))[0] == 201
        fill(filler)
        for number in range(MAX_WRITES):
            code, status = await write(server, f"c{number}", LARGE[:100_000])
            if code != 201:
                break
        assert (code, status["reason"]) == (507, "InsufficientStorage")
        assert (await server.client.get(f"{PATH}/first")).status_code == 200
        assert (await server.client.get("/readyz")).status_code == 500
        filler.unlink()
        assert (await write(server, "after"))[0] == 201
    assert run_journal("verify", mounted / "data").lines[-1] == "sound"


def fill(path: Path) -> None:
    """Write a file until its file system is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


async def on_a_new_connection(
    client: PlainClient, method: str, path: str, body: Document | None = None
) -> int:
    """Send a request again if its connection ends: the server closes idle ones to accept others."""
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
    content = None if body is None else orjson.dumps(body)
    with trio.fail_after(60):
        while True:
            try:
                return (await client.request(method, path, content, headers))[0]
            except httpx.TransportError:
                continue


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_lack_of_file_descriptors_stops_no_connected_client(tmp_path: Path) -> None:
    async with process(tmp_path) as server:
        # Not httpx's HTTP/1.1 client: it leaves an unfinished generator behind when a connection ends while it sends
        # a body.
        client = PlainClient("127.0.0.1", server.port)
        assert await on_a_new_connection(client, "POST", PATH, config_map("first")) == 201
        used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used + 2, hard))
        with ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            assert await on_a_new_connection(client, "POST", PATH, config_map("second")) == 201
            assert await on_a_new_connection(client, "GET", f"{PATH}/first") == 200
        another = PlainClient("127.0.0.1", server.port)
        assert await on_a_new_connection(another, "GET", f"{PATH}/second") == 200
        client.close()
        another.close()

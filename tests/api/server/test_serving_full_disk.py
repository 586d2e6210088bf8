"""A full disk: writes get 507, reads work, and writes work again once there is room."""

from __future__ import annotations

import resource
from pathlib import Path

import trio

from tests.gateway.processes import Server, process

PATH = "/api/v1/namespaces/default/configmaps"
MAX_WRITES = 500


def allow(server: Server, size: int) -> None:
    """Limit the size of the server's files, which it sees as a full disk."""
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, hard))


async def write(server: Server, name: str) -> tuple[int, dict]:
    body = {"metadata": {"name": name}, "data": {"text": "x" * 20_000}}
    answer = await server.client.post(PATH, json=body)
    return answer.status_code, answer.json()


async def controllers_have_written(server: Server) -> None:
    """Wait for the conditions of all FlowSchemas: later, a small write of a controller might find room."""
    schemas = "/apis/flowcontrol.apiserver.cluster.io/v1beta2/flowschemas"
    with trio.fail_after(60):
        while True:
            listed = (await server.client.get(schemas)).json()["items"]
            if listed and all("conditions" in one.get("status", {}) for one in listed):
                return
            await trio.sleep(0.02)


async def test_full_disk_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    async with process(tmp_path) as server:
        kept = []
        assert (await write(server, "first"))[0] == 201
        await controllers_have_written(server)
        allow(server, (tmp_path / "data" / "journal" / "data.mdb").stat().st_size)
        for number in range(MAX_WRITES):
            code, status = await write(server, f"c{number}")
            if code != 201:
                break
            kept.append(f"c{number}")
        assert code == 507
        assert status["reason"] == "InsufficientStorage"
        assert "no room for the journal" in status["message"]
        assert "free some space" in status["message"]

        assert (await server.client.get(f"{PATH}/first")).status_code == 200
        listed = (await server.client.get(PATH)).json()
        assert {item["metadata"]["name"] for item in listed["items"]} == {"first", *kept}
        assert (await server.client.get("/readyz")).status_code == 500
        assert "[-]journal failed" in (await server.client.get("/readyz?verbose")).text
        assert (await server.client.get("/livez")).status_code == 200
        before = int(listed["metadata"]["resourceVersion"])

        allow(server, resource.RLIM_INFINITY)
        code, made = await write(server, "after")
        assert code == 201
        assert int(made["metadata"]["resourceVersion"]) > before
        assert (await server.client.get("/readyz")).status_code == 200
    async with process(tmp_path) as server:
        listed = (await server.client.get(PATH)).json()
        assert {item["metadata"]["name"] for item in listed["items"]} == {"first", *kept, "after"}

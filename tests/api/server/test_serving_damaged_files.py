"""The file of a running server is cut: it stops with a clear last line, and the next start is refused."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from rewound.server.memory_faults import EXIT_CODE
from tests.gateway.processes import Server, process, refused

PATH = "/api/v1/namespaces/default/configmaps"


async def write(server: Server, name: str) -> tuple[int, str]:
    answer = await server.client.post(PATH, json={"metadata": {"name": name}, "data": {"text": "x" * 3000}})
    return answer.status_code, answer.json().get("message", "")


async def test_cut_file_stops_the_server_with_a_clear_line(tmp_path: Path) -> None:
    with (tmp_path / "errors").open("wb") as errors:
        async with process(tmp_path, errors=errors.fileno()) as server:
            for i in range(20):
                assert (await write(server, f"c{i}"))[0] == 201
            os.truncate(tmp_path / "data" / "journal" / "data.mdb", 3 * 4096)
            with pytest.raises(httpx.TransportError):
                await server.client.get(PATH)
            assert await server.ended() == EXIT_CODE
    last = (tmp_path / "errors").read_text().splitlines()[-1]
    assert last.startswith("rewound: stopped by SIGBUS: the journal in ")
    assert "rewound journal verify" in last
    code, text = await refused(tmp_path)
    assert code == 1
    assert "rewound journal recover" in text

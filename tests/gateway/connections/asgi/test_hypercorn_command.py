"""`hypercorn -k trio rewound.asgi:application` serves the API, and stops it cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import trio

from tests.gateway.api import ADMIN, TOKENS, config_map
from tests.ports import reserve_port

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_api_is_served_and_its_data_stays(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text(TOKENS)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[4]),
        "REWOUND_DATA_DIR": str(tmp_path / "data"),
        "REWOUND_TOKEN_AUTH_FILE": str(tmp_path / "tokens.csv"),
        "REWOUND_SECURE_PORT": "0",
        "REWOUND_INSECURE_PORT": "8080",
    }
    port = reserve_port()
    command = [sys.executable, "-m", "hypercorn", "-k", "trio", "--bind", f"127.0.0.1:{port}"]
    headers = {"authorization": f"Bearer {ADMIN}"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "rewound.asgi:application"], env=environment, stdout=log, stderr=log
        )
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60
        ) as client:
            await _wait_for(client, process, tmp_path / "log")
            assert (await client.post(MAPS, json=config_map("a"))).status_code == 201
            watch = await client.get(MAPS, params={"watch": "1", "timeoutSeconds": "1"})
            assert watch.text.startswith('{"type":"ADDED"')
    finally:
        process.send_signal(signal.SIGTERM)
        await trio.to_thread.run_sync(process.wait, 60)
    assert not (tmp_path / "log").read_text().count("Traceback")


async def _wait_for(client: httpx.AsyncClient, process: subprocess.Popen[bytes], log: Path) -> None:
    with trio.fail_after(60):
        while True:
            assert process.poll() is None, log.read_text()
            try:
                await client.get("/livez")
            except httpx.ConnectError:
                await trio.sleep(0.05)
            else:
                return

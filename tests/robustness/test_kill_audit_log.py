"""SIGKILL of a server with a blocking audit log: the file has the events of every response that a client got."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import orjson
import pytest
import trio

from tests.gateway.api import config_map
from tests.gateway.processes import Server, process

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLIENTS = 4
KILLED_AFTER = 60  # responses


class Clients:
    """Create and read objects at the same time until the server is gone; keep the Audit-Id of each response."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.acknowledged: list[str] = []

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(CLIENTS):
                nursery.start_soon(self._write, number)

    async def _write(self, number: int) -> None:
        async with self.server.connect() as client:
            for count in range(10_000):
                body = config_map(f"object-{number}-{count}")
                try:
                    self._note(await client.post(CONFIG_MAPS, json=body))
                    self._note(await client.get(f"{CONFIG_MAPS}/object-{number}-{count}"))
                except httpx.TransportError:
                    return

    def _note(self, response: httpx.Response) -> None:
        assert response.status_code in (200, 201), response.text
        self.acknowledged.append(response.headers["audit-id"])
        if len(self.acknowledged) == KILLED_AFTER:
            self.server.signal(signal.SIGKILL)


@pytest.mark.parametrize("level", ["Metadata", "RequestResponse"])
@pytest.mark.parametrize("mode", ["blocking", "blocking-strict"])
async def test_events_of_acknowledged_responses_are_in_the_file(
    tmp_path: Path, mode: str, level: str
) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    rules = f"rules: [{{level: {level}}}]"
    policy.write_text(f"{{apiVersion: audit.cluster.io/v1, kind: Policy, {rules}}}")
    given = ("--audit-policy-file", str(policy), "--audit-log-path", str(log), "--audit-log-mode", mode)
    async with process(tmp_path, *given) as server:
        clients = Clients(server)
        with trio.fail_after(120):
            await clients.run()
        await server.ended()
    assert len(clients.acknowledged) >= KILLED_AFTER
    # The last line may be incomplete: no client got its response.
    events = [orjson.loads(line) for line in log.read_bytes().splitlines() if line.endswith(b"}")]
    for stage in ("RequestReceived", "ResponseComplete"):
        written = {one["auditID"] for one in events if one["stage"] == stage}
        assert set(clients.acknowledged) - written == set()

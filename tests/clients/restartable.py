"""A server on one folder and one HTTPS port that can be restarted, and the events that it has to deliver.

async with restartable(tmp_path) as server:
    await server.write("a", "b")
    await server.restart()
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.https import Kubeconfig
from tests.gateway.processes import Server, process

COLLECTION = "/api/v1/namespaces/default/configmaps"
# Type, name and data.text of a watch event.
Event = tuple[str, str, str]


class RestartableServer:
    def __init__(self, folder: Path, port: int, stack: AsyncExitStack) -> None:
        self.events: list[Event] = []  # what a watch from the beginning has to deliver, in order
        self._folder, self._port, self._stack = folder, port, stack
        self._server: Server

    @property
    def kubeconfig(self) -> Path:
        return self._folder / "data" / "admin.kubeconfig"

    @property
    def client(self) -> httpx.AsyncClient:
        """A client of the plain port with a user in system:masters."""
        return self._server.client

    async def start(self) -> None:
        # Without the config maps of the root CA publisher: all events are the test's own.
        flags = (
            *("--dialect", "kubernetes", "--secure-port", str(self._port)),
            "--controllers=default,-root-ca-cert-publisher",
        )
        self._server = await self._stack.enter_async_context(process(self._folder, *flags))

    async def restart(self) -> None:
        """Stop the process with SIGTERM, and start another one on the same folder and port."""
        self._server.signal(signal.SIGTERM)
        assert await self._server.ended() == 0
        await self._stack.aclose()
        await self.start()

    # Writing.

    async def write(self, *names: str) -> None:
        """Create, update and delete config maps, one request after the other."""
        for name in names:
            await self.create(name)
            await self._send("PUT", f"{COLLECTION}/{name}", "MODIFIED", name, "2")
        for name in names:
            await self._send("DELETE", f"{COLLECTION}/{name}", "DELETED", name, "2")

    async def create(self, name: str) -> None:
        await self._send("POST", COLLECTION, "ADDED", name, "1")

    async def _send(self, method: str, path: str, event: str, name: str, text: str) -> None:
        body = {"metadata": {"name": name}, "data": {"text": text}}
        response = await self.client.request(method, path, json=None if method == "DELETE" else body)
        assert response.is_success, response.text
        self.events.append((event, name, text))

    # What clients need.

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def certificates(self) -> tuple[Path, Path]:
        """Files of the server's CA, and of a client certificate with its key."""
        known = Kubeconfig(self.kubeconfig)
        ca, pair = self._folder / "ca.pem", self._folder / "pair.pem"
        ca.write_bytes(known.authority)
        pair.write_bytes(known.certificate + known.key)
        return ca, pair


def event(line: dict[str, Any]) -> Event:
    """The event of a line that the Go and the JavaScript program print."""
    return line["Type"], line["Name"], line["Text"]


@asynccontextmanager
async def restartable(folder: Path) -> AsyncIterator[RestartableServer]:
    async with AsyncExitStack() as stack:
        server = RestartableServer(folder, _port(), stack)
        await server.start()
        yield server


def _port() -> int:
    """A free port outside the kernel's ephemeral range, so that it is still free at the restart."""
    first = 20000 + os.getpid() % 10000
    for port in range(first, 32000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no port is free from {first} on")

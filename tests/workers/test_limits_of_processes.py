"""Limits of a server with two processes: requests of both together, and what a killed worker held."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from tests.gateway.api import ALICE
from tests.gateway.plain_client import PlainClient
from tests.gateway.processes import Server, process
from tests.workers.test_processes import MAPS, children, config_map, connections, until

LIMIT = 3
RBAC = "rbac.authorization.cluster.io"
HEADERS = {"authorization": f"Bearer {ALICE}", "content-type": "application/json"}
BODY = json.dumps(config_map("a")).encode()
HOOKS = "/apis/admissionregistration.cluster.io/v1/validatingwebhookconfigurations"


class SilentWebhook:
    """Accepts connections and never responds, so that requests keep their seats."""

    def __init__(self) -> None:
        self.accepted = 0
        self.port = 0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        async with listener, AsyncExitStack() as held:
            while True:
                await held.enter_async_context(await listener.accept())
                self.accepted += 1

    def configuration(self) -> dict[str, object]:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        hook = {
            "name": "silent.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}/"},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
        }
        return {"metadata": {"name": "silent"}, "webhooks": [hook]}


@asynccontextmanager
async def clients_of(server: Server, number: int) -> AsyncIterator[dict[str, list[PlainClient]]]:
    """This many clients connected to each process."""
    found: dict[str, list[PlainClient]] = {"writer": [], "worker 1": []}
    with ExitStack() as opened:
        while any(len(some) < number for some in found.values()):
            before, client = connections(server), PlainClient("127.0.0.1", server.port)
            opened.callback(client.close)
            assert (await client.request("GET", "/readyz", None, HEADERS))[0] == 200
            after = connections(server)
            [role] = [one for one in found if after[one] > before[one]]
            found[role].append(client)
        yield found


async def bind_alice(server: Server) -> None:
    binding = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "alice"}],
    }
    made = await server.client.post(f"/apis/{RBAC}/v1/clusterrolebindings", json=binding)
    assert made.status_code == 201, made.text


async def concurrency_limit(server: Server) -> float:
    name = 'apiserver_flowcontrol_request_concurrency_limit{priority_level="mutating"} '
    [line] = [one for one in (await server.client.get("/metrics")).text.splitlines() if one.startswith(name)]
    return float(line.removeprefix(name))


@pytest.mark.slow
async def test_limit_of_requests_in_flight_holds_for_all_workers(tmp_path: Path) -> None:
    limits = ("--enable-priority-and-fairness=false", "--max-mutating-requests-inflight", str(LIMIT))
    refused: Counter[str] = Counter()

    async def create(role: str, client: PlainClient) -> None:
        """Until the worker ends, or the test."""
        while True:
            try:
                status, _, text = await client.request("POST", MAPS, BODY, HEADERS)
            except (httpx.TransportError, OSError):
                return
            assert status == 429, text
            refused[role] += 1
            await trio.sleep(0.01)

    async with process(tmp_path, "--workers", "2", *limits) as server, trio.open_nursery() as nursery:
        await bind_alice(server)
        await nursery.start((hook := SilentWebhook()).run)
        made = await server.client.post(HOOKS, json=hook.configuration())
        assert made.status_code == 201, made.text
        with trio.fail_after(60):
            while await concurrency_limit(server) != LIMIT:
                await trio.sleep(0.05)

        async with clients_of(server, LIMIT + 1) as clients, trio.open_nursery() as creating:
            for client in clients["worker 1"]:
                creating.start_soon(create, "worker 1", client)
            await until(lambda: hook.accepted == LIMIT)  # also the seats of the writer process
            for client in clients["writer"]:
                creating.start_soon(create, "writer", client)
            await until(lambda: min(refused["worker 1"], refused["writer"]) >= 10)
            assert hook.accepted == LIMIT

            os.kill(children(server)["worker 1"], signal.SIGKILL)
            await until(lambda: hook.accepted == 2 * LIMIT)
            creating.cancel_scope.cancel()
        nursery.cancel_scope.cancel()

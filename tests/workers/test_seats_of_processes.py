"""Writes that wait for a webhook, from clients of both processes, never exceed the shared limit together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import trio

from tests.gateway.plain_client import PlainClient
from tests.gateway.processes import process
from tests.workers.test_limits_of_processes import (
    BODY,
    HEADERS,
    HOOKS,
    SilentWebhook,
    bind_alice,
    clients_of,
    concurrency_limit,
)
from tests.workers.test_processes import MAPS, until

LIMIT = 4


async def test_writes_that_wait_for_a_webhook_keep_their_seats_in_every_process(tmp_path: Path) -> None:
    limits = ("--enable-priority-and-fairness=false", "--max-mutating-requests-inflight", str(LIMIT))
    refused: Counter[str] = Counter()

    async def create(role: str, client: PlainClient) -> None:
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
            # Those of the writer process come first: they gave their seats back, and the others got them.
            for client in clients["writer"]:
                creating.start_soon(create, "writer", client)
            await until(lambda: hook.accepted == LIMIT)
            for client in clients["worker 1"]:
                creating.start_soon(create, "worker 1", client)
            await until(lambda: min(refused["writer"], refused["worker 1"]) >= 10)
            assert hook.accepted == LIMIT
            creating.cancel_scope.cancel()
        nursery.cancel_scope.cancel()

"""SIGKILL after a namespace deletion was acknowledged and before it is complete: the next server completes it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.robustness.client import Client
from tests.robustness.cluster import TIMEOUT, Cluster
from tests.robustness.journal_contents import read_journal
from tests.robustness.objects import Document

NAMESPACE = "/api/v1/namespaces/going"
OBJECTS = 40


def test_namespace_deletion_completes_after_kill(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()
        client = Client(cluster.port)
        expect(client, 201, "POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
        for number in range(OBJECTS):
            expect(client, 201, "POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": f"c{number}"}})
        expect(client, 200, "DELETE", NAMESPACE)
        client.close()
        cluster.kill()
        cluster.start()
        client = Client(cluster.port)
        until_gone(client, NAMESPACE)
        assert expect(client, 200, "GET", f"{NAMESPACE}/configmaps")["items"] == []
        client.close()
        cluster.kill()
        assert read_journal(cluster.journal).differences == ()
        assert not cluster.tracebacks()


def expect(client: Client, status: int, method: str, path: str, body: Document | None = None) -> Document:
    got, response = client.call(method, path, body)
    assert got == status, response
    return response


def until_gone(client: Client, path: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while client.call("GET", path)[0] != 404:
        assert time.monotonic() < deadline, f"{path} still exists"
        time.sleep(0.01)

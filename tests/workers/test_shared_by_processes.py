"""`rewound serve --workers 2` is one server: a client can continue with one process what it started with the other."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import trio

from tests.gateway.aggregation.aggregated import (
    API_SERVICES,
    GROUP,
    GROUP_VERSION,
    NAME,
    RESOURCES,
    api_service,
)
from tests.gateway.aggregation.test_discovery import AGGREGATED
from tests.gateway.aggregation.test_openapi import SECTION, SPEC, describing
from tests.gateway.outgoing.https_peer import pki
from tests.gateway.processes import process
from tests.gateway.proxy.backends import serving
from tests.workers.test_processes import MAPS, children, clients, config_map

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TIMELINE = "/apis/rewound.cluster.io/v1/timeline"
POLICY = "apiVersion: audit.cluster.io/v1\nkind: Policy\nrules:\n- {level: Metadata, verbs: [create]}\n"


async def scraped(client: httpx.AsyncClient) -> dict[str, float]:
    response = await client.get("/metrics")
    assert response.status_code == 200, response.text
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def created(metrics: dict[str, float]) -> float:
    return sum(
        number
        for name, number in metrics.items()
        if name.startswith("apiserver_request_total{") and 'code="201"' in name and '"configmaps"' in name
    )


async def complete(client: httpx.AsyncClient) -> dict[str, float]:
    """A scrape to which both processes contributed in time: a busy machine may need several."""
    with trio.fail_after(60):
        while True:
            before = (await scraped(client)).get("rewound_workers_unanswered_scrapes_total")
            found = await scraped(client)
            after = found.get("rewound_workers_unanswered_scrapes_total")
            if found.get("rewound_workers") == 2 and before == after:
                return found
            await trio.sleep(0.02)


async def ready(client: httpx.AsyncClient) -> None:
    """Wait until the worker of this client has a writer process."""
    with trio.fail_after(60):
        while (await client.get("/readyz")).status_code != 200:
            await trio.sleep(0.02)


async def test_metrics_health_and_audit_log_are_of_all_processes(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    log = tmp_path / "audit.log"
    audit = ("--audit-policy-file", str(tmp_path / "policy.yaml"), "--audit-log-path", str(log))
    async with process(tmp_path, "--workers", "2", *audit) as server:
        async with clients(server) as some:
            for number, client in enumerate(some):
                assert (await client.post(MAPS, json=config_map(f"a{number}"))).status_code == 201
            for client in some:
                found = await complete(client)
                assert created(found) == 4
                assert found["rewound_committed_events_total"] > 4
                assert found["rewound_connections"] >= 4
                [journal] = [
                    one
                    for one in (await client.get("/api/v1/componentstatuses")).json()["items"]
                    if one["metadata"]["name"] == "journal"
                ]
                assert journal["conditions"][0]["status"] == "True"
            before = children(server)
            other = some[1]  # of the worker
            os.kill(before["writer"], signal.SIGSTOP)
            assert (await other.get("/readyz")).status_code == 500
            assert (await other.get("/livez")).status_code == 200
            os.kill(before["writer"], signal.SIGKILL)
            assert (await other.get("/livez")).status_code == 200
            assert (await other.get(f"{MAPS}/a1")).status_code == 200
            found = await scraped(other)
            assert created(found) == 4
            await ready(other)
            assert created(await scraped(other)) == 4
            os.kill(before["worker 1"], signal.SIGTERM)
            with trio.fail_after(60):
                while children(server).get("worker 1") in (None, before["worker 1"]):
                    await trio.sleep(0.02)
        async with server.connect() as client:
            await ready(client)
            assert created(await complete(client)) == 4
        server.signal(signal.SIGTERM)
        assert await server.ended() == 0
    stages: dict[str, list[str]] = {}
    for event in map(orjson.loads, log.read_bytes().splitlines()):
        if event["requestURI"] == MAPS:
            stages.setdefault(event["auditID"], []).append(event["stage"])
    assert list(stages.values()) == [["RequestReceived", "ResponseComplete"]] * 4


@pytest.mark.slow
async def test_any_worker_continues_what_another_began(tmp_path: Path) -> None:
    proxy = ("--proxy-client-cert-file", str(pki() / "client.pem"), "--proxy-client-key-file")
    flags = ("--workers", "2", "--allow-local-proxy-targets", *proxy, str(pki() / "client.key"))
    respond = describing(orjson.dumps(SPEC))
    async with (
        serving(respond, certificate="service") as backend,
        process(tmp_path, *flags) as server,
        clients(server) as some,
    ):
        one, other = some[0], some[1]
        await _lists_continue(one, other)
        await _tokens_are_valid(one, other)
        await _descriptions_are_the_same(one, other)
        await _page_reads_through_any(one, other)
        await _history_is_the_same(one, other)
        await _levels_are_those_of_all(some)
        await _servers_are_described(one, other, backend.port)


async def _lists_continue(one: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    """Continue tokens, also with ?at=, and exact versions."""
    for number in range(5):
        assert (await one.post(MAPS, json=config_map(f"l{number}"))).status_code == 201
    whole = (await one.get(MAPS)).json()
    for extra in ("", f"&at={whole['metadata']['resourceVersion']}"):
        names, token, turn = [], "", 0
        while token or not turn:
            client = (one, other)[turn % 2]
            page = (await client.get(f"{MAPS}?limit=2&continue={token}{extra}")).json()
            assert page["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
            names += [item["metadata"]["name"] for item in page["items"]]
            token, turn = page["metadata"].get("continue", ""), turn + 1
            assert (
                await client.post(MAPS, json=config_map(f"m{turn}{bool(extra)}".lower()))
            ).status_code == 201
        assert names == [item["metadata"]["name"] for item in whole["items"]]


async def _tokens_are_valid(one: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    """Service account tokens: issued by one worker, verified by the other, refused by both when the account is
    deleted.
    """
    account = {"metadata": {"name": "robot"}}
    assert (await one.post(ACCOUNTS, json=account)).status_code == 201
    made = [await client.post(f"{ACCOUNTS}/robot/token", json={"spec": {}}) for client in (one, other)]
    reviews = "/apis/authentication.cluster.io/v1/tokenreviews"
    for response in made:
        token = response.json()["status"]["token"]
        for client in (one, other):
            review = (await client.post(reviews, json={"spec": {"token": token}})).json()
            assert review["status"]["authenticated"] is True, review
            assert (
                await client.get("/version", headers={"authorization": f"Bearer {token}"})
            ).status_code == 200
    keys = [(await client.get("/openid/v1/jwks")).content for client in (one, other)]
    assert keys[0] == keys[1]
    assert (await other.delete(f"{ACCOUNTS}/robot")).status_code == 200
    for client in (one, other):
        assert (await client.get("/version", headers={"authorization": f"Bearer {token}"})).status_code == 401


async def _descriptions_are_the_same(one: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    """Documents have the same ETag in all workers: a client that has one from a worker gets 304 from the other."""
    index = (await one.get("/openapi/v3")).json()
    assert index == (await other.get("/openapi/v3")).json()
    for path in ("/openapi/v2", index["paths"]["api/v1"]["serverRelativeURL"]):
        etag = (await one.get(path)).headers["etag"]
        assert (await other.get(path, headers={"if-none-match": etag})).status_code == 304
    etag = (await one.get("/apis", headers=AGGREGATED)).headers["etag"]
    assert (await other.get("/apis", headers={**AGGREGATED, "if-none-match": etag})).status_code == 304


async def _page_reads_through_any(one: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    """The page needs no session: files have ETags, events versions; a wait in one worker sees a write through
    another.
    """
    etag = (await one.get("/debug/journal/")).headers["etag"]
    assert (await other.get("/debug/journal/", headers={"if-none-match": etag})).status_code == 304
    types = [(await client.get(f"{TIMELINE}/types")).json() for client in (one, other)]
    assert types[0] == types[1]
    first = (await one.get(f"{TIMELINE}/events?limit=2")).json()
    following = (
        await other.get(f"{TIMELINE}/events?limit=2&continue={first['metadata']['continue']}")
    ).json()
    again = (await one.get(f"{TIMELINE}/events?limit=2&continue={first['metadata']['continue']}")).json()
    assert following["items"] == again["items"] != first["items"]
    version = int((await one.get(MAPS)).json()["metadata"]["resourceVersion"]) + 1
    waited: list[Any] = []

    async def wait() -> None:
        waited.append((await other.get(f"{TIMELINE}/events?order=ascending&wait=30&from={version}")).json())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        assert (await one.post(MAPS, json=config_map("seen"))).status_code == 201
    assert "seen" in json.dumps(waited)


async def _history_is_the_same(one: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    """Versions of an object, and an undelete through another worker than the delete."""
    made = (await one.post(MAPS, json=config_map("old", a="1"))).json()
    assert (
        await other.patch(
            f"{MAPS}/old", json={"data": {"a": "2"}}, headers={"content-type": "application/merge-patch+json"}
        )
    ).status_code == 200
    path = "/apis/rewound.cluster.io/v1/namespaces/default/configmaps/old"
    histories = [(await client.get(f"{path}/history")).json() for client in (one, other)]
    assert histories[0] == histories[1] and len(histories[0]["items"]) == 2
    past = await other.get(f"{MAPS}/old?at={made['metadata']['resourceVersion']}")
    assert past.json()["data"] == {"a": "1"}


async def _levels_are_those_of_all(some: list[httpx.AsyncClient]) -> None:
    path = "/debug/api_priority_and_fairness/dump_priority_levels"

    async def dispatched(client: httpx.AsyncClient) -> int:
        rows = [row.split(", ") for row in (await client.get(path)).text.splitlines()]
        column = [one.strip(" ,") for one in rows[0]].index("DispatchedRequests")
        [exempt] = [row for row in rows if row[0] == "exempt"]
        return int(exempt[column].strip(" ,"))

    # The numbers of a worker that does not answer within a second are missing.
    with trio.fail_after(60):
        while await dispatched(some[0]) + 1 != await dispatched(some[1]):
            await trio.sleep(0.05)


async def _servers_are_described(one: httpx.AsyncClient, other: httpx.AsyncClient, port: int) -> None:
    """OpenAPI documents and resources of aggregated servers are in the memory of each worker."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    service = {"metadata": {"name": "hook"}, "spec": spec}
    assert (await one.post("/api/v1/namespaces/default/services", json=service)).status_code == 201
    assert (await one.post(API_SERVICES, json=api_service(port))).status_code == 201
    for client in (one, other):
        with trio.fail_after(60):
            while not await _is_described(client):
                await trio.sleep(0.05)
        assert (await client.get(GROUP_VERSION)).json() == RESOURCES
    stored = (await other.get(f"{API_SERVICES}/{NAME}")).json()
    assert [one["status"] for one in stored["status"]["conditions"]] == ["True"]


async def _is_described(client: httpx.AsyncClient) -> bool:
    items = (await client.get("/apis", headers=AGGREGATED)).json()["items"]
    found = [one for one in items if one["metadata"]["name"] == GROUP]
    resources = [one["resource"] for group in found for one in group["versions"][0]["resources"]]
    index = (await client.get("/openapi/v3")).json()["paths"]
    document = (await client.get("/openapi/v2")).json()["paths"]
    return resources == ["things"] and SECTION in index and f"{GROUP_VERSION}/things" in document

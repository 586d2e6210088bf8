"""The audit webhook: a real HTTPS server gets EventLists, dies, and is back later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.gateway.audit.backends.bounds import Throttle
from rewound.gateway.settings.settings import AuditSettings
from tests.gateway.api import Api, config_map, served
from tests.gateway.audit.auditing import PATH, rules
from tests.gateway.outgoing.https_peer import Peer, Received, Reply, https_peer, write_kubeconfig

POLICY = rules("level: Metadata, verbs: [create]", more="omitStages: [RequestReceived]\n")
OK = Reply(body=b"")  # audit servers need not respond with a document


class Receiver:
    """An audit server; `alive` False makes it close every connection."""

    def __init__(self) -> None:
        self.alive = True
        self.refusals: list[Reply] = []
        self.events: list[dict[str, Any]] = []
        self.sizes: list[int] = []
        self.tries = 0
        self.changed = trio.lowlevel.ParkingLot()

    def respond(self, received: Received) -> Reply | None:
        self.tries += 1
        self.changed.unpark_all()
        if not self.alive:
            return None
        if self.refusals:
            return self.refusals.pop()
        document = received.document
        assert (document["kind"], document["apiVersion"]) == ("EventList", "audit.cluster.io/v1")
        assert all(next(iter(item)) == "level" and "kind" not in item for item in document["items"])
        self.events += document["items"]
        self.sizes.append(len(document["items"]))
        return OK

    @property
    def names(self) -> list[str]:
        return [event["objectRef"]["name"] for event in self.events]

    async def reached(self, events: int = 0, tries: int = 0) -> None:
        while len(self.events) < events or self.tries < tries:
            await self.changed.park()


@asynccontextmanager
async def running(folder: Path, file: Path, **more: Any) -> AsyncIterator[Api]:
    (folder / "policy.yaml").write_text(POLICY)
    given: dict[str, Any] = {
        "audit_policy_file": folder / "policy.yaml",
        "audit_webhook_config_file": file,
        "audit_webhook_batch_max_wait": 0.0,
        "audit_webhook_initial_backoff": 0.001,
        "audit_webhook_batch_throttle_qps": 10_000.0,
    }
    async with served(audit=AuditSettings(**given | more)) as api:
        yield api


@asynccontextmanager
async def received(folder: Path, **more: Any) -> AsyncIterator[tuple[Receiver, Peer, Api]]:
    receiver = Receiver()
    async with https_peer(receiver.respond) as peer, running(folder, peer.kubeconfig(folder), **more) as api:
        yield receiver, peer, api


async def test_events_arrive_in_order_with_the_client_certificate(tmp_path: Path) -> None:
    async with received(tmp_path) as (receiver, peer, api):
        for name in "abc":
            await api.create("configmaps", config_map(name))
        await receiver.reached(events=3)
    assert receiver.names == ["a", "b", "c"]
    assert {one.client for one in peer.received} == {"client"}


async def test_batches_have_the_given_size_and_the_rest_is_sent_at_the_end(tmp_path: Path) -> None:
    limits = {"audit_webhook_batch_max_size": 2, "audit_webhook_batch_max_wait": 3600.0}
    async with received(tmp_path, **limits) as (receiver, _, api):
        for name in "abcde":
            await api.create("configmaps", config_map(name))
        await receiver.reached(events=4)
        assert receiver.names == ["a", "b", "c", "d"]
        await api.finish()
        assert receiver.names == ["a", "b", "c", "d", "e"]
    assert receiver.sizes == [2, 2, 1]


async def test_server_that_dies_and_returns_gets_what_waited(tmp_path: Path) -> None:
    async with received(tmp_path, audit_webhook_batch_max_size=1) as (receiver, _, api):
        await api.create("configmaps", config_map("before"))
        await receiver.reached(events=1)
        receiver.alive = False
        for name in "abc":  # the API goes on
            await api.create("configmaps", config_map(name))
        # "a" and "b" are given up after five attempts each; the first attempt also used the connection of "before".
        await receiver.reached(tries=1 + 1 + 2 * 5)
        receiver.alive = True
        await api.create("configmaps", config_map("after"))
        await receiver.reached(events=3)
        metrics = (await api.ask("GET", "/metrics")).text
    assert receiver.names[0] == "before" and receiver.names[-2:] == ["c", "after"]
    assert 'apiserver_audit_error_total{plugin="webhook"} 2' in metrics


@pytest.mark.parametrize("status", [404, 403, 502, 503])
async def test_batch_is_sent_again_whatever_the_status(tmp_path: Path, status: int) -> None:
    async with received(tmp_path) as (receiver, _, api):
        receiver.refusals = [Reply(status, b"later")] * 4
        await api.create("configmaps", config_map("a"))
        await receiver.reached(events=1)
    assert (receiver.names, receiver.tries) == (["a"], 5)


async def test_event_that_is_too_large_without_objects_is_lost_and_counted(tmp_path: Path) -> None:
    limits = {"audit_webhook_truncate_enabled": True, "audit_webhook_truncate_max_event_size": 1500}
    async with received(tmp_path, **limits) as (receiver, _, api):
        await api.ask("POST", f"{PATH}?fieldManager={'x' * 1500}", config_map("long"))
        await api.create("configmaps", config_map("short"))
        await receiver.reached(events=1)
        metrics = (await api.ask("GET", "/metrics")).text
    assert receiver.names == ["short"]
    assert 'apiserver_audit_error_total{plugin="truncate"} 1' in metrics
    assert 'apiserver_audit_error_total{plugin="webhook"} 0' in metrics


async def test_full_buffer_loses_events_and_counts_them(tmp_path: Path) -> None:
    limits = {
        "audit_webhook_batch_buffer_size": 2,
        "audit_webhook_batch_max_size": 1,
        "audit_webhook_initial_backoff": 3600.0,
    }
    async with received(tmp_path, **limits) as (receiver, _, api):
        receiver.alive = False
        await api.create("configmaps", config_map("sent"))
        await receiver.reached(tries=1)
        for name in "abcd":
            await api.create("configmaps", config_map(name))
        metrics = (await api.ask("GET", "/metrics")).text
        assert 'apiserver_audit_error_total{plugin="buffered"} 2' in metrics
        receiver.alive = True
        await api.finish()  # what waited is sent at once
    assert receiver.names == ["sent", "a", "b"]


async def test_blocking_mode_has_sent_the_event_when_the_response_arrives(tmp_path: Path) -> None:
    async with received(tmp_path, audit_webhook_mode="blocking") as (receiver, _, api):
        await api.create("configmaps", config_map("a"))
        assert receiver.names == ["a"]
        receiver.alive = False
        await api.create("configmaps", config_map("b"))  # sent in vain
        assert receiver.names == ["a"]


async def test_strict_mode_refuses_without_a_server(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:1/", "insecure-skip-tls-verify": True}
    file = write_kubeconfig(tmp_path, cluster, {})
    async with running(tmp_path, file, audit_webhook_mode="blocking-strict") as api:
        assert (await api.ask("POST", PATH, config_map("a"))).status == 201  # RequestReceived is omitted
    policy = rules("level: Metadata, verbs: [create]")
    async with running(
        tmp_path, file, audit_webhook_mode="blocking-strict", audit_policy_file=_written(tmp_path, policy)
    ) as api:
        assert (await api.ask("POST", PATH, config_map("a"))).status == 500
        assert (await api.ask("GET", f"{PATH}/a")).status == 404


def _written(folder: Path, policy: str) -> Path:
    path = folder / "strict.yaml"
    path.write_text(policy)
    return path


@pytest.mark.parametrize(
    ("moments", "delays"),
    [([0.0, 0.0, 0.0, 0.0], [0, 0, 0.5, 1.0]), ([0.0, 0.0, 1.0, 1.0, 1.0], [0, 0, 0, 0, 0.5])],
)
def test_throttle_spreads_batches(moments: list[float], delays: list[float]) -> None:
    throttle = Throttle(rate=2.0, burst=2)
    assert [throttle.delay(moment) for moment in moments] == delays

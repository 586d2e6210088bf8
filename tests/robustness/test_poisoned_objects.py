"""Objects of every kind that no server of this version would store: each server starts, and goes on with all others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import KUBERNETES
from rewound.gateway.settings.settings import ControllerSettings
from tests.actors.object_store import memory_folder
from tests.gateway.api import Api, config_map, served
from tests.gateway.watch.watching import watching
from tests.robustness.poison import NOT_OBJECTS, Poison, poisons, write

SETTINGS = {"dialect": "kubernetes", "kubernetes_version": "1.36"}
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACE = "/api/v1/namespaces/default"
POD = {"metadata": {"name": "healthy"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
LABELS = {"app": "healthy"}
DEPLOYMENT = {
    "metadata": {"name": "healthy"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": POD["spec"]},
    },
}


@asynccontextmanager
async def poisoned(
    count: int, seed: int, *, nodes: int | None = None
) -> AsyncIterator[tuple[Api, list[Poison]]]:
    """A server on a journal with some poisoned objects of each kind, among them those that no server starts without."""
    settings = {**SETTINGS, **({} if nodes is None else {"controllers": ControllerSettings(nodes=nodes)})}
    with memory_folder() as folder:
        async with served(folder, **settings) as api:
            assert api.store is not None
            found = [
                one for one in poisons(api.store.registry.current, KUBERNETES, count, seed) if is_json(one)
            ]
        # Webhooks and policies that fit their kinds would refuse the writes of the tests, as they should.
        found = [one for one in found if "admissionregistration" not in one.type_name or not nodes]
        write(folder / "data" / "journal", found, "kubernetes")
        async with served(folder, **settings) as api:
            yield api, found


def is_json(one: Poison) -> bool:
    return not one.case.endswith(NOT_OBJECTS)


async def check_health(api: Api) -> None:
    for path in ("/livez", "/readyz?verbose", "/openapi/v2", "/openapi/v3", "/apis", "/metrics"):
        response = await api.ask("GET", path)
        assert response.status == 200, response.text[:1000]


def path_of(definition: Definition, namespace: str = "", name: str = "") -> str:
    root = f"/apis/{definition.api_version}" if definition.group else "/api/v1"
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{definition.plural}" + (f"/{name}" if name else "")


async def check_lists(api: Api) -> list[str]:
    """The lists that a server does not serve, in any representation."""
    assert api.store is not None
    failures = []
    for definition in api.store.registry.current.definitions:
        if "list" not in definition.verbs:
            continue
        for accept in ("application/json", TABLE, METADATA, PROTOBUF):
            response = await api.ask("GET", path_of(definition), headers={"accept": accept})
            if response.status != 200 and not (definition.is_custom and response.status == 406):
                failures.append(f"{definition.plural} as {accept}: {response.status}")
    return failures


async def check_watches(api: Api) -> list[str]:
    """The kinds whose watch does not begin with the objects of a list."""
    assert api.store is not None
    failures = []
    for definition in {one.type_name: one for one in api.store.registry.current.definitions}.values():
        if not {"list", "watch"} <= set(definition.verbs) or definition.is_custom:
            continue
        identity = {"kind": definition.kind, "apiVersion": definition.api_version}
        listed = [
            {**identity, **one} for one in (await api.ask("GET", path_of(definition))).expect(200)["items"]
        ]
        received: list[object] = []
        async with watching(api, path_of(definition), resourceVersion="0") as watch:
            while len(received) < len(listed):
                received += [event["object"] for event in await watch.take(1)]
        if received != listed:
            failures.append(definition.type_name)
    return failures


async def check_objects(api: Api, found: Sequence[Poison]) -> list[str]:
    """The poisoned objects that a client cannot get, send back, change or delete."""
    assert api.store is not None
    failures = []
    for one in found:
        stored = api.store.registry.current.stored_type(one.type_name)
        if (
            stored is None
            or not stored.served
            or not {"get", "patch", "delete"} <= set(stored.served[0].verbs)
        ):
            continue
        path = path_of(stored.served[0], one.namespace, one.name)
        got = await api.ask("GET", path)
        if got.status == 404:
            continue  # a controller has deleted it, as it would a healthy one
        table = await api.ask("GET", path, headers={"accept": TABLE})
        # What it sends back is judged as from any client; Kubernetes responds with 500 to versions that are no number.
        sent = got.body.replace(b'"resourceVersion":"poison"', b'"resourceVersion":""')
        replaced = await api.ask("PUT", path, sent)
        patched = await api.ask("PATCH", path, {"metadata": {"annotations": {"a": "b"}}}, headers=MERGE)
        deleted = await api.ask("DELETE", path)
        statuses = got.status, table.status, replaced.status, patched.status, deleted.status
        if max(statuses) >= 500 or got.status != 200 or deleted.status not in (200, 202, 404):
            failures.append(f"{one.case}: {statuses}, {deleted.text[:200]}")
    return failures


MERGE = {"content-type": "application/merge-patch+json"}


async def check_all(count: int, seed: int) -> None:
    async with poisoned(count, seed) as (api, found):
        await check_health(api)
        (await api.ask("POST", f"{NAMESPACE}/secrets", config_map("healthy"))).expect(201)
        assert not await check_lists(api)
        assert not await check_watches(api)
        assert not await check_objects(api, found)
        await check_health(api)


async def test_every_kind_is_served_and_deleted() -> None:
    await check_all(3, 1)


async def test_simulated_nodes_run_healthy_pods() -> None:
    async with poisoned(3, 7, nodes=2) as (api, _):
        running: set[str] = set()
        async with watching(api, f"{NAMESPACE}/pods", labelSelector="app=healthy") as watch:
            (await api.ask("POST", "/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)).expect(201)
            while len(running) < 2:
                (event,) = await watch.take(1)
                if event["object"]["status"].get("phase") == "Running":
                    running.add(event["object"]["metadata"]["name"])
        await check_health(api)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_many_of_every_kind_are_served_and_deleted(seed: int) -> None:
    await check_all(24, 100 + seed)

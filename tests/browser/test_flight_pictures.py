"""Pictures of a flight recorder: its page with suspects, and the front page of several clusters.

`make browser-test` keeps them in docs/images.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.gateway.settings.settings import Addresses
from rewound.recording.flight.clusters import Cluster, Clusters
from rewound.recording.record.gaps import EXPIRED
from tests.actors.object_store import memory_folder
from tests.browser.chromium import Page, open_page
from tests.browser.journal_page import LOADS, address, minutes, patch, sign_in
from tests.browser.pictures import smaller
from tests.browser.test_front import CARD
from tests.browser.test_screenshots import Album
from tests.gateway.api import ADMIN, Api, config_map, served
from tests.recording.flight.flying import Flying, flying
from tests.recording.flight.test_clusters import free_ports

SUSPECTS = "[...document.querySelectorAll('#headline button')].find((one) => one.innerText === 'Suspects')"
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
NAMES = ("prod", "staging", "edge")


async def rollout(api: Api, recorded: Flying) -> None:
    """A Secret is deleted; ten minutes later a rollout needs it, and fails."""
    await api.create("secrets", {"metadata": {"name": "db-password"}, "stringData": {"key": "hunter2"}})
    await api.create("configmaps", config_map("flags", beta="off"))
    reads = [{"secretRef": {"name": "db-password"}}]
    container = {"name": "main", "image": "shop:1", "envFrom": reads}
    template = {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "shop"}}, "template": template}
    await api.create("deployments", {"metadata": {"name": "shop"}, "spec": spec}, fieldManager="kubectl")
    deployment = api.path("deployments", name="shop")
    old = [await pod(api, name, template) for name in ("shop-5d9c7-4kx2p", "shop-5d9c7-bw7tn")]
    await recorded.caught_up()
    for number in range(6):
        api.clock.advance(50)
        await patch(api, api.path("configmaps", name="flags"), {"data": {"beta": str(number)}})
    await recorded.caught_up()
    await api.delete("secrets", "db-password")
    for number in range(6):
        api.clock.advance(100)
        await patch(api, api.path("configmaps", name="flags"), {"data": {"beta": f"on {number}"}})
        await recorded.caught_up()
    template["spec"] = {"containers": [{**container, "image": "shop:2"}]}
    change = {"spec": {"template": template}}
    await patch(api, deployment + "?fieldManager=kubectl", change)
    api.clock.advance(5)
    fails = {"reason": "CreateContainerConfigError", "message": 'secret "db-password" not found'}
    for name in ("shop-7f6b8-9zqhd", "shop-7f6b8-xv5mc"):
        await pod(api, name, template, fails)
    await api.delete("pods", old[0])
    api.clock.advance(60)
    await recorded.caught_up()


async def pod(api: Api, name: str, template: dict[str, Any], waiting: dict[str, str] | None = None) -> str:
    owner = await api.get("deployments", "shop")
    uid = owner["metadata"]["uid"]
    reference = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "shop",
        "uid": uid,
        "controller": True,
    }
    metadata = {"name": name, "labels": {"app": "shop"}, "ownerReferences": [reference]}
    manager = "kube-controller-manager"
    await api.create("pods", {"metadata": metadata, "spec": template["spec"]}, fieldManager=manager)
    one = {"name": "main", "image": "shop", "imageID": "", "restartCount": 0, "ready": waiting is None}
    state = {"running": {}} if waiting is None else {"waiting": waiting}
    phase = "Running" if waiting is None else "Pending"
    ready = {"type": "Ready", "status": "True" if waiting is None else "False"}
    status = {"phase": phase, "conditions": [ready], "containerStatuses": [{**one, "state": state}]}
    path = api.path("pods", name=name) + "/status?fieldManager=kubelet"
    await patch(api, path, {"status": status})
    return name


@asynccontextmanager
async def recorded_cluster(folder: Path) -> AsyncIterator[tuple[Api, Flying]]:
    async with served() as api, flying(api, folder, kinds=KINDS) as one:
        await one.begun()
        api.clock.advance(600)
        yield api, one


KINDS = ("configmaps", "secrets", "pods", "deployments.apps")


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_pictures_of_a_recorder(chromium: str, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("JOURNAL_PAGE_PICTURES") or tmp_path)
    pictures.mkdir(parents=True, exist_ok=True)
    with memory_folder() as folder:
        async with (
            recorded_cluster(folder / "prod") as (api, one),
            recorded_cluster(folder / "staging") as (_, other),
            open_page(chromium) as page,
        ):
            await rollout(api, one)
            now = api.clock.now()
            one.flight.gaps.add(
                EXPIRED,
                now - 700_000_000,
                now - 560_000_000,
                "pods",
                "too old resource version",
                missing=True,
            )
            album = Album(page, pictures)
            await page.size(1280, 900)
            await page.go(address(one.api, **minutes(api, 25, 1)))
            await sign_in(page, ADMIN)
            await page.wait(f"{LOADS} > 0")
            await page.wait(SUSPECTS)
            await page.run(f"{SUSPECTS}.click()")
            await page.wait("document.querySelector('.suspects > li')")
            shown = await page.run("document.querySelector('.suspects > li').innerText")
            assert "secrets default/db-password was deleted" in shown, shown
            await album.take("flight-page", 1280, 900, "light")
            await front(page, folder, (one, other), pictures)


async def front(page: Page, folder: Path, flights: tuple[Flying, Flying], pictures: Path) -> None:
    port, stop = free_ports(2), trio.Event()
    ports = [one.api.addresses.insecure for one in flights]
    plain = [*(found[1] for found in ports if found is not None), port + 1]
    clusters = [Cluster(name, None, "", folder / name, 0, at) for name, at in zip(NAMES, plain, strict=True)]
    front = Clusters(
        folder, clusters, lambda _: ["sleep", "1000"], bind="127.0.0.1", ports=(0, port), for_everyone=False
    )

    async def run(task_status: trio.TaskStatus[Addresses]) -> None:
        await front.run(task_status.started, stop)

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        await page.go(f"http://127.0.0.1:{port}/")
        for name in NAMES[:2]:
            await page.wait(f"{CARD.format(name)}?.innerText.includes('sign in to see it')")
            await page.type(f"[data-name={name}] input", ADMIN)
            await page.click(f"[data-name={name}] form button")
            await page.wait(f"{CARD.format(name)}.innerText.includes('recording, lag')")
        await page.wait(f"{CARD.format('prod')}.innerText.includes('CreateContainerConfigError')")
        await page.size(1280, 300)
        await page.scheme("light")
        await page.run(FRAMES)
        (pictures / "flight-clusters-1280-light.png").write_bytes(smaller(await page.screenshot()))
        stop.set()

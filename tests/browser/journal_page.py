"""The page at /debug/journal/ of a server under test, and the history in its journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from rewound.actors.rewind.moments import rfc3339
from tests.actors.object_store import Document
from tests.browser.chromium import Page, open_page
from tests.gateway.api import ADMIN, Api, config_map, served

MERGE = {"content-type": "application/merge-patch+json"}
LOADS = "Number(document.body.dataset.loads ?? 0)"


@asynccontextmanager
async def journal_page(chromium: str, **settings: Any) -> AsyncIterator[tuple[Api, Page]]:
    async with served(**settings) as api, open_page(chromium) as page:
        yield api, page


def address(api: Api, **state: Any) -> str:
    """The URL of the page, with what it is to show; on the secure port if there is one."""
    listening = api.addresses.secure or api.addresses.insecure
    assert listening is not None
    scheme = "https" if api.addresses.secure else "http"
    fragment = f"#{urlencode(state)}" if state else ""
    return f"{scheme}://{listening[0]}:{listening[1]}/debug/journal/{fragment}"


async def sign_in(page: Page, token: str = ADMIN) -> None:
    await page.wait("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")
    await page.type("#token", token)
    await page.click("#sign-in-form button")


async def open_signed_in(api: Api, page: Page, token: str = ADMIN, **state: Any) -> None:
    await page.go(address(api, **state))
    await sign_in(page, token)
    await page.wait(f"{LOADS} > 0")


def minutes(api: Api, before: float, after: float) -> dict[str, str]:
    """A range around the present of the server."""
    now = api.clock.now()
    return {"from": rfc3339(now - round(before * 60e6)), "to": rfc3339(now + round(after * 60e6))}


async def patch(api: Api, path: str, change: Document, **more: Any) -> Document:
    return (await api.ask("PATCH", path, change, headers=MERGE, **more)).expect(200)


async def tell_story(api: Api) -> None:
    """Two controllers fight over a field of a Deployment, and a user deletes a ConfigMap."""
    api.clock.advance(3600)
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    made = await api.create(
        "deployments", {"metadata": {"name": "web"}, "spec": spec}, fieldManager="kubectl"
    )
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": "web-1", "ownerReferences": [owner], "labels": labels}
    template = {"selector": {"matchLabels": labels}, "template": pod}
    await api.create("replicasets", {"metadata": metadata, "spec": template})
    path = api.path("deployments", name="web")
    for number in range(8):
        api.clock.advance(40)
        manager, replicas = ("autoscaler", 5) if number % 2 == 0 else ("deployer", 2)
        await patch(api, path, {"spec": {"replicas": replicas}}, fieldManager=manager)
    about = {"kind": "Deployment", "namespace": "default", "name": "web", "uid": made["metadata"]["uid"]}
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": about,
        "reason": "Scaled",
        "message": "Scaled up to 5",
        "type": "Normal",
    }
    await api.create("events", event)
    await api.create("configmaps", config_map("settings", color="blue"), fieldManager="kubectl")
    api.clock.advance(20)
    await patch(api, api.path("configmaps", name="settings"), {"data": {"color": "red"}})
    api.clock.advance(20)
    await api.delete("configmaps", "settings")
    for number in range(30):
        api.clock.advance(3)
        await api.create("configmaps", config_map(f"job-{number}", number=str(number)))
    api.clock.advance(30)

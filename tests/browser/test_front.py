"""The front page of several clusters: what is wrong where, with a token for each cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from rewound.gateway.settings.settings import Addresses
from rewound.recording.flight.clusters import Cluster, Clusters
from tests.actors.object_store import memory_folder
from tests.browser.chromium import open_page
from tests.browser.test_modules import call
from tests.gateway.api import ADMIN, served
from tests.recording.flight.flying import flying
from tests.recording.flight.test_clusters import free_ports

CARD = "document.querySelector('[data-name={}]')"
KNOWN = {
    "recording": True,
    "problem": "",
    "lagSeconds": 0.5,
    "gaps": [],
    "listed": True,
    "disk": {"problem": ""},
}


async def test_a_token_opens_one_cluster(chromium: str) -> None:
    async with served() as api, open_page(chromium) as page, trio.open_nursery() as nursery:
        with memory_folder() as folder:
            async with flying(api, folder / "prod", kinds=("configmaps",)) as one:
                await one.begun()
                assert one.api.addresses.insecure is not None
                port, stop = free_ports(2), trio.Event()
                prod = Cluster("prod", None, "", folder / "prod", 0, one.api.addresses.insecure[1])
                lost = Cluster("lost", None, "", folder / "lost", 0, port + 1)
                front = Clusters(
                    folder,
                    [prod, lost],
                    lambda _: ["sleep", "1000"],
                    bind="127.0.0.1",
                    ports=(0, port),
                    for_everyone=False,
                )

                async def run(task_status: trio.TaskStatus[Addresses]) -> None:
                    await front.run(task_status.started, stop)

                await nursery.start(run)
                await page.go(f"http://127.0.0.1:{port}/")
                await page.wait(f"{CARD.format('prod')}?.innerText.includes('sign in to see it')")
                shown = await page.run(f"{CARD.format('lost')}.innerText")
                assert "its recorder starts" in shown
                assert await page.run(f"{CARD.format('lost')}.querySelector('form').hidden") is True
                await page.type("[data-name=prod] input", "unknown")
                await page.click("[data-name=prod] form button")
                await page.wait(f"{CARD.format('prod')}.innerText.includes('does not know this token')")
                await page.type("[data-name=prod] input", ADMIN)
                await page.click("[data-name=prod] form button")
                await page.wait(f"{CARD.format('prod')}.innerText.includes('recording, lag')")
                await page.wait(f"{CARD.format('prod')}.innerText.includes('nothing fails')")
                assert "Sign in" not in await page.run(f"{CARD.format('prod')}.innerText")
                link = await page.run(f"{CARD.format('prod')}.querySelector('a').href")
                assert link == f"http://127.0.0.1:{prod.plain}/debug/journal/"
                assert await page.run("Object.keys(sessionStorage)") == ["token prod"]
                await judged(page)
                stop.set()


async def judged(page: Any) -> None:
    async def found(
        known: Any, failing: Any = None, state: str = "running", *, signed_in: bool = True
    ) -> Any:
        one = {"name": "prod", "state": state}
        return await call_front(
            page,
            "m.judged(one, known, failing, signed)",
            one=one,
            known=known,
            failing=failing,
            signed=signed_in,
        )

    ok = {"status": 200, "found": KNOWN}
    assert (await found(None, state="no response"))["tone"] == "bad"
    assert (await found(None, signed_in=False))["tone"] == "unknown"
    assert await found(ok) == {"tone": "good", "words": "recording, lag 0.5 s · no gaps", "problems": []}
    gone = {**KNOWN, "recording": False, "problem": "connection\u202e refused", "gaps": [{"missing": True}]}
    shown = await found({"status": 200, "found": gone})
    assert shown["tone"] == "bad" and shown["problems"] == ["connection\u202e refused"]
    assert "1 gap, 1 with missing versions" in shown["words"]
    assert (await found({"status": 200, "found": {**KNOWN, "lagSeconds": 31.0}}))["tone"] == "working"
    alert = {"rule": "stuck-rollouts", "message": "web", "severity": "critical"}
    shown = await found({"status": 200, "found": {**KNOWN, "rules": {"firing": 1, "alerts": [alert]}}})
    assert shown["tone"] == "bad" and shown["problems"] == ["stuck-rollouts: web"]
    pod = {"type": "pods", "namespace": "shop", "name": "web", "phase": "CrashLoopBackOff"}
    failing = {"status": 200, "found": {"failingTotal": 3, "failing": [pod]}}
    shown = await found({"status": 403, "found": {}}, failing)
    assert "you may not read /debug/rewound/flight there · 3 failing" in shown["words"]
    assert shown["problems"] == ["pods shop/web: CrashLoopBackOff"]


async def call_front(page: Any, expression: str, **values: Any) -> Any:
    return await call(page, "../../clusters/front.js", expression, **values)


def test_the_files_hold_no_address_of_others() -> None:
    import rewound.recording.flight as package

    folder = Path(str(package.__file__)).parent / "front"
    text = "".join(one.read_text() for one in folder.iterdir())
    assert "http://" not in text and "https://" not in text and "innerHTML" not in text

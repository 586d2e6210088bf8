"""The page at /debug/journal/ in a browser: sign-in, timeline, filters, cursor, objects, following."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.server.extensions import Extensions
from tests.browser.chromium import open_page
from tests.browser.journal_page import (
    LOADS,
    MERGE,
    address,
    journal_page,
    minutes,
    open_signed_in,
    patch,
    sign_in,
    tell_story,
)
from tests.gateway.api import ADMIN, ALICE, config_map
from tests.gateway.https import served_securely
from tests.rewind.test_at import allow

EXPORT = """new Promise((found) => {
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => { blob.text().then(found); return create.call(URL, blob); };
    document.getElementById('export').click();
})"""


ROW = "({ group, item }) => (item ? `${item.depth} ${item.name}` : group.label)"


async def test_the_page_shows_the_story(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, **minutes(api, 15, 1))
        assert await page.text("#user") == "admin"
        await page.wait("document.querySelectorAll('#events li').length > 20")
        assert "configmaps default/job-29" in await page.text("#events li")
        # The heading says who fights, and the picture has kinds, and objects below them with their dependents.
        headline = await page.text("#headline")
        assert (
            "autoscaler and deployer changed spec.replicas of deployments.apps default/web in turn"
            in headline
        )
        rows = await page.run(f'import("./app.js").then((app) => app.lanes.rows.map({ROW}))')
        at = rows.index("deployments")
        assert rows[at : at + 3] == ["deployments", "0 web", "1 web-1"]
        # A filter reduces the events, and is in the address.
        loads = await page.run(LOADS)
        await page.type("[name=type]", "deployments.apps")
        await page.type("[name=name]", "web")
        await page.run("document.getElementById('filters').requestSubmit()")
        await page.wait(f"{LOADS} > {loads}")
        assert await page.run("document.querySelectorAll('#events li').length") == 9
        assert "type=deployments.apps" in await page.run("location.hash")
        # Steps lead from event to event; the object at the cursor has its versions side by side.
        await page.run("document.getElementById('timeline').focus()")
        await page.press("[", "[")
        await page.wait("document.getElementById('difference')?.dataset.shown")
        compared = await page.text(".compared")
        assert "replicas: 5" in compared and "replicas: 2" in compared
        shown = await page.run("document.getElementById('difference').dataset.shown")
        await page.press("[", "[")
        await page.wait(f"(document.getElementById('difference')?.dataset.shown ?? {shown!r}) !== {shown!r}")
        # Blame, owners, dependents and Events.
        await page.click("[data-part=blame]")
        await page.wait("document.querySelector('#part th')?.innerText === 'field'")
        assert "autoscaler" in await page.text("#part")
        await page.click("[data-part=links]")
        await page.wait("document.getElementById('part').innerText.includes('Scaled up to 5')")
        links = await page.text("#part")
        assert "replicasets.apps default/web-1" in links
        # The state at the cursor: the ConfigMaps came later.
        await page.click("#tab-state")
        await page.wait("document.getElementById('state').innerText.includes('deployments.apps 1')")
        assert "job" not in await page.text("#state")
        everywhere = [request["url"] for request in page.requests]
        assert all(url.startswith(address(api).partition("/debug")[0]) for url in everywhere)
        assert not any(ADMIN in url for url in everywhere)


async def test_refused_writes_name_who_refused_them(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        path = api.path("deployments", name="web")
        assert (await api.ask("DELETE", path, token=ALICE)).status == 403
        wrong = {"spec": {"replicas": -1}}
        assert (await api.ask("PATCH", path, wrong, headers=MERGE)).status == 422
        stale = {"metadata": {"resourceVersion": "1"}}
        assert (await api.ask("PATCH", path, stale, headers=MERGE)).status == 409
        await open_signed_in(api, page, **minutes(api, 15, 1))
        await page.wait("document.querySelectorAll('#events li.refused').length === 2")
        assert "2 writes were refused, the last: patch refused (422)" in await page.text("#headline")
        shown = await page.text("#events li.refused:nth-child(2)")
        assert "delete refused by missing rights (403)" in shown and "alice" in shown
        # Conflicts of versions are noise, and no refusals.
        await page.click("#noise")
        await page.wait("document.querySelectorAll('#events li.refused').length === 3")
        shown = await page.text("#events li.refused:nth-child(1)")
        assert "patch too late: there is a newer version (409)" in shown
        assert "2 writes were refused" in await page.text("#headline")
        await page.click("#noise")
        # Those of others are for users who may see authors.
        await page.click("#sign-out")
        await allow(api, {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]})
        await page.go(address(api, namespace="default", **minutes(api, 15, 1)))
        await sign_in(page, ALICE)
        await page.wait("document.querySelectorAll('#events li').length === 9")
        assert "refused" not in await page.text()


@pytest.mark.slow
async def test_it_follows_new_events_and_plays_old_ones(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, type="configmaps", **minutes(api, 5, 1))
        await page.click("#live")
        await page.wait("document.getElementById('live').getAttribute('aria-pressed') === 'true'")
        api.clock.advance(5)
        await api.create("configmaps", config_map("fresh"))
        await page.wait("document.querySelector('#events li').innerText.includes('default/fresh')")
        await patch(api, api.path("configmaps", name="fresh"), {"data": {"a": "b"}})
        await page.wait("document.querySelector('#events li').innerText.includes('data added')")
        await page.click("#live")
        # Playing moves the cursor up to the newest event and ends there.
        await page.run("document.getElementById('speed').value = '3600'")
        await page.click("#play")
        await page.wait("document.getElementById('play').getAttribute('aria-pressed') === 'false'")
        cursor = await page.text("#cursor")
        newest = await page.text("#events li time")
        assert cursor.startswith(newest)


@pytest.mark.slow
async def test_it_shows_what_its_user_may_list(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await allow(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "get"]})
        state = minutes(api, 15, 1)
        await open_signed_in(api, page, ALICE, **state)
        assert "name a namespace in the filter" in await page.text("#message")
        await page.type("[name=namespace]", "default")
        await page.run("document.getElementById('filters').requestSubmit()")
        await page.wait("document.querySelectorAll('#events li').length > 20")
        shown = await page.text("#events")
        assert "configmaps default/settings" in shown
        assert "deployments" not in shown and "admin" not in shown
        # A link shows the same to every user who may see it: the other user signs in again.
        await page.click("#sign-out")
        await sign_in(page, "wrong")
        await page.wait("document.getElementById('message').innerText !== ''")
        assert not await page.run("sessionStorage.length")
        await sign_in(page, ADMIN)
        await page.wait("document.getElementById('events').innerText.includes('admin')")


@pytest.mark.slow
async def test_export_has_the_events_of_the_range(chromium: str, tmp_path: Path) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, type="configmaps", name="settings", **minutes(api, 15, 1))
        exported = await page.run(EXPORT)
        lines = [json.loads(line) for line in exported.splitlines()]
        assert [line["change"] for line in lines] == ["created", "updated", "deleted"]
        assert [line["object"]["data"]["color"] for line in lines] == ["blue", "red", "red"]


@pytest.mark.slow
async def test_the_keyboard_reaches_everything(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, type="deployments.apps", **minutes(api, 15, 1))
        await page.wait("document.querySelectorAll('#events li').length === 9")
        # From the first field to the timeline with the Tab key alone.
        await page.run("document.querySelector('[name=type]').focus()")
        for _ in range(20):
            if await page.run("document.activeElement.id") == "timeline":
                break
            await page.press("Tab")
        assert await page.run("document.activeElement.id") == "timeline"
        assert await page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
        await page.press("]", "]")
        await page.wait("document.getElementById('cursor').innerText.includes('version')")
        first = await page.text("#cursor")
        await page.press("]", "]")
        await page.wait(f"document.getElementById('cursor').innerText !== {first!r}")
        await page.press("[", "[")
        await page.wait(f"document.getElementById('cursor').innerText === {first!r}")
        # Down to a microsecond's scale around the cursor, where the event is still in view.
        for _ in range(30):
            await page.press("+", "+")
        await page.wait("document.getElementById('range').innerText.includes('(100 µs)')")
        await page.wait("document.querySelectorAll('#events li').length === 1")
        for _ in range(40):
            await page.press("-", "-")
        await page.wait("document.getElementById('range').innerText.includes('(400 d)')")
        await page.wait("document.querySelectorAll('#events li').length === 9")
        await page.press("Home")
        await page.press("End")
        await page.press("ArrowLeft")
        await page.press("l", "l")
        await page.wait("document.getElementById('live').getAttribute('aria-pressed') === 'true'")
        await page.press("l", "l")
        await page.wait("document.getElementById('live').getAttribute('aria-pressed') === 'false'")


@pytest.mark.slow
async def test_who_is_known_without_a_token_need_not_sign_in(chromium: str) -> None:
    """As with a client certificate: here, anonymous users may do everything."""
    everybody = Extensions(authorizers=[AlwaysAllow()])
    async with journal_page(chromium, extensions=everybody) as (api, page):
        await tell_story(api)
        await page.go(address(api, **minutes(api, 15, 1)))
        await page.wait("document.querySelectorAll('#events li').length > 20")
        assert await page.run("document.getElementById('sign-in').hidden")
        assert await page.run("document.getElementById('sign-out').hidden")


@pytest.mark.slow
async def test_values_of_secrets_are_masked(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        api.clock.advance(3600)
        metadata = {"name": "key", "annotations": {"copy": "hunter2"}}
        await api.create("secrets", {"metadata": metadata, "stringData": {"password": "hunter2"}})
        await open_signed_in(api, page, object="secrets/default/key", **minutes(api, 5, 1))
        await page.wait("document.getElementById('difference')?.dataset.shown")
        assert "***" in await page.text(".compared")
        await page.click("[data-part=blame]")
        await page.wait("document.getElementById('part').innerText.includes('data.password')")
        shown = await page.text()
        exported = await page.run(EXPORT)
        assert '"name":"key"' in exported and "*** (7 characters)" in exported
        for text in (shown, exported):
            assert "hunter2" not in text
            assert "aHVudGVyMg" not in text


@pytest.mark.slow
async def test_the_page_works_over_http_2(chromium: str) -> None:
    """All requests, and the one that waits for new events, share a connection."""
    async with served_securely() as api, open_page(chromium) as page:
        await tell_story(api)
        await open_signed_in(api, page, type="configmaps", live="1", **minutes(api, 5, 1))
        await page.wait("document.getElementById('live').getAttribute('aria-pressed') === 'true'")
        for number in range(3):
            api.clock.advance(1)
            await api.create("configmaps", config_map(f"fresh-{number}"))
            await page.wait(f"document.querySelector('#events li').innerText.includes('fresh-{number}')")
            await page.click("#events button")
            await page.wait("document.getElementById('difference')?.dataset.shown")
        assert page.protocols == {"h2"}

"""Users who may write objects, or send links, cannot attack those who open the page."""

from __future__ import annotations

import pytest

from tests.browser.journal_page import address, journal_page, minutes, open_signed_in, sign_in
from tests.gateway.api import ADMIN, config_map

SCRIPT = '<img src=x onerror="window.attacked = 1"><script>window.attacked = 1</script>'
NAME = "<img src=x onerror=window.attacked=1>"
TEMPLATE = "${window.attacked = 1}{{constructor.constructor('window.attacked = 1')()}}"


async def test_stored_script_is_shown_as_text(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        api.clock.advance(3600)
        body = config_map("web", script=SCRIPT, a=TEMPLATE, javascript="javascript:window.attacked=1")
        body["metadata"]["annotations"] = {"note": SCRIPT, "other": '"><svg onload=window.attacked=1>'}
        await api.create("configmaps", body, fieldManager=SCRIPT)
        headers = {"user-agent": SCRIPT, "impersonate-user": SCRIPT}
        changed = {**body, "data": {"script": SCRIPT + SCRIPT}}
        path = api.path("configmaps", name="web")
        (
            await api.ask("PUT", path, changed, headers=headers | {"impersonate-group": "system:masters"})
        ).expect(200)
        event = {
            "metadata": {"name": "web.1"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "web"},
            "reason": "Attack",
            "message": SCRIPT,
        }
        await api.create("events", event)
        # Names of roles, and with them of bindings, may have all characters but / and %.
        await api.create("clusterroles", {"metadata": {"name": NAME}, "rules": []})
        state = minutes(api, 5, 1)
        # Two cursors: one a minute after the newest event, one before all of them.
        state |= {"at": state["to"], "second": state["from"]}
        await open_signed_in(api, page, object="configmaps/default/web", **state)
        await page.wait("document.getElementById('difference')?.dataset.shown")
        assert "onerror" in await page.text(".compared")
        assert "onerror" in await page.text(".versions")
        shown = await page.text("#events")
        assert NAME in shown and SCRIPT in shown
        await page.click("[data-part=blame]")
        await page.wait("document.getElementById('part').innerText.includes('svg onload')")
        await page.click("[data-part=links]")
        await page.wait("document.querySelectorAll('#part section').length === 3")
        assert "onerror" in await page.text("#part")
        await page.click("[data-part=yaml]")
        await page.wait("document.getElementById('yaml')?.innerText.includes('onerror')")
        await page.click("#tab-state")
        await page.wait("document.getElementById('state').innerText.includes('onerror')")
        await page.click("#tab-comparison")
        await page.wait("document.querySelector('#comparison [data-change]')")
        assert NAME in await page.text("#comparison")
        assert await page.run("typeof window.attacked") == "undefined"
        assert (
            await page.run("document.querySelectorAll('main img, main script, main svg, iframe').length") == 0
        )


@pytest.mark.slow
async def test_script_in_the_address_is_shown_as_text(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        state = dict.fromkeys(("q", "type", "namespace", "name", "verb", "user", "at", "left", "by"), SCRIPT)
        await open_signed_in(api, page, object=f"{SCRIPT}/{SCRIPT}/x", **state)
        await page.wait("document.querySelector('#filters input').value.includes('onerror')")
        assert await page.run("typeof window.attacked") == "undefined"
        assert await page.run("document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.slow
async def test_a_token_in_the_address_is_not_used(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        for url in (
            f"{address(api)}?token={ADMIN}",
            address(api, token=ADMIN),
            address(api, access_token=ADMIN),
        ):
            await page.go("about:blank")
            await page.go(url)
            await page.wait("document.getElementById('message')?.innerText.includes('There was a token')")
            assert ADMIN not in await page.run("location.href")
            assert await page.run("sessionStorage.length") == 0
            assert await page.run("document.getElementById('main').hidden")
        await sign_in(page)
        await page.wait("!document.getElementById('main').hidden")
        page_itself = f"{address(api)}?token={ADMIN}"
        assert [one["url"] for one in page.requests if ADMIN in one["url"]] == [page_itself]
        assert await page.run("document.cookie") == ""


@pytest.mark.slow
async def test_no_other_page_can_frame_it(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        # A page of the same server, without a policy of its own, stands for any other.
        await page.go(address(api).replace("/debug/journal/", "/healthz"))
        await page.wait("document.body?.innerText.includes('ok')")
        await page.run(
            f"""new Promise((done) => {{
                const frame = document.createElement('iframe');
                frame.addEventListener('load', done);
                frame.src = {address(api)!r};
                document.body.append(frame);
            }})"""
        )
        framed = "document.querySelector('iframe').contentDocument?.getElementById('sign-in') ?? null"
        assert await page.run(f"({framed}) === null")
        page.problems.clear()  # the browser says that it refused

"""The panes of the page: the list of changes, an object, a comparison, the state at the cursor."""

from __future__ import annotations

import pytest
import yaml

from rewound.actors.rewind.moments import rfc3339
from tests.browser.chromium import Page
from tests.browser.journal_page import (
    LOADS,
    address,
    journal_page,
    minutes,
    open_signed_in,
    patch,
    tell_story,
)
from tests.gateway.api import config_map

CURRENT = "document.querySelector('#events [aria-current]')?.dataset.version ?? ''"
FOCUSED = "document.activeElement.parentElement.dataset.version"


async def current_is(page: Page, version: str) -> None:
    await page.wait(f"({CURRENT}) === {version!r}")


async def test_the_list_follows_the_cursor_and_two_moments_are_compared(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, type="deployments.apps", **minutes(api, 15, 1))
        await page.wait("document.querySelectorAll('#events li').length === 9")
        versions = await page.run(
            "[...document.querySelectorAll('#events li')].map((one) => one.dataset.version)"
        )
        assert versions == sorted(versions, key=int, reverse=True)
        # Two managers, two colours.
        authors = await page.run(
            "[...document.querySelectorAll('#events .who')].slice(0, 4).map((one) => one.className)"
        )
        assert authors[0] == authors[2] != authors[1] == authors[3]
        # The cursor moves the list, and the list the cursor.
        await page.run("document.getElementById('timeline').focus()")
        await page.press("[", "[")
        await current_is(page, versions[0])
        assert await page.run("document.activeElement.id") == "timeline"
        await page.run("document.querySelector('#events [tabindex=\"0\"]').focus()")
        await page.press("ArrowDown")
        await current_is(page, versions[1])
        await page.press("ArrowDown")
        await current_is(page, versions[2])
        assert await page.run(FOCUSED) == versions[2]
        await page.wait(f"location.hash.includes('at={versions[2]}')")
        # Two moments: the second cursor stands a while before the first one.
        await page.click("#compare")
        await page.wait("document.querySelector('#comparison [data-change]')")
        assert "1 changed" in await page.text("#comparison .counts")
        await page.run("document.querySelector('#comparison li details').open = true")
        await page.wait("document.querySelector('#comparison .compared')")
        shown = await page.text("#comparison")
        assert "deployments.apps" in shown and "generation" in shown
        await page.click("#compare")
        # Nothing matches: the list says why, and offers to clear the filter.
        await page.type("[name=name]", "nobody")
        await page.run("document.getElementById('filters').requestSubmit()")
        await page.wait("!document.getElementById('events-empty').hidden")
        assert "matches the filter" in await page.text("#events-empty")
        await page.click("#events-empty button")
        await page.wait("document.querySelectorAll('#events li').length > 20")


@pytest.mark.slow
async def test_the_list_loads_the_events_around_the_cursor(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        api.clock.advance(3600)
        for number in range(250):
            api.clock.advance(1)
            await api.create("configmaps", config_map(f"one-{number}"))
        await open_signed_in(api, page, type="configmaps", name="one-*", **minutes(api, 5, 1))
        shown = "document.querySelector('#events [aria-current]')?.innerText ?? ''"
        for _ in range(2):
            await page.click("#more:not([hidden])")
            await page.wait("document.getElementById('events').getAttribute('aria-busy') === 'false'")
        assert await page.run("document.querySelectorAll('#events li').length") == 250
        loads = await page.run(LOADS)
        await page.run("document.getElementById('filters').requestSubmit()")
        await page.wait(f"{LOADS} > {loads}")
        assert await page.run("document.querySelectorAll('#events li').length") == 100
        await page.run("document.getElementById('timeline').focus()")
        # The oldest event is far below the hundred that were loaded.
        await page.press("]", "]")
        await page.wait(f"({shown}).includes('one-0')")
        await page.wait("!document.getElementById('newer').hidden")
        for _ in range(3):
            await page.run(
                "document.getElementById('newer').hidden || document.getElementById('newer').click()"
            )
            await page.wait("document.getElementById('events').getAttribute('aria-busy') === 'false'")
        assert "one-249" in await page.text("#events li")


@pytest.mark.slow
async def test_the_state_has_tables_as_they_were(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, tab="state", noise=1, **minutes(api, 15, 1))
        await page.wait("document.querySelectorAll('[data-type=configmaps] tbody tr').length === 10")
        # Only kinds of the timeline were asked for.
        assert not any("/serviceaccounts" in one["url"] for one in page.requests)
        await page.click("[data-type=configmaps] .more")
        await page.wait("document.querySelectorAll('[data-type=configmaps] tbody tr').length === 30")
        assert "Last Seen" in await page.text("[data-type=events] thead")
        assert "web.1" in await page.text("[data-type=events] tbody")
        await page.type("#state-search", "WEB-1")
        await page.wait("document.querySelector('[data-type=configmaps]').hidden")
        assert "web-1" in await page.text("[data-type='replicasets.apps'] tbody")
        await page.run("document.getElementById('state-search').value = ''")
        await page.run("document.querySelector('.others').open = true")
        await page.wait("document.querySelector('.others [data-type=namespaces]')")
        # Before the fight began, the Deployment had two replicas.
        await page.run(
            "[...document.querySelectorAll('#events button')]"
            ".findLast((one) => one.innerText.includes('deployments.apps')).click()"
        )
        await page.click("#tab-state")
        await page.wait("document.querySelector('[data-type=configmaps]') === null")
        assert "0/2" in await page.text("[data-type='deployments.apps'] tbody")
        await page.click("[data-type='deployments.apps'] button.link")
        await page.wait("document.getElementById('difference')?.dataset.shown")


@pytest.mark.slow
async def test_two_moments_are_compared(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        api.clock.advance(3600)
        await api.create("configmaps", config_map("changed", color="blue"))
        await api.create("configmaps", config_map("removed"))
        secret = {"metadata": {"name": "key"}, "stringData": {"a": "hunter2"}}
        await api.create("secrets", secret)
        api.clock.advance(60)
        middle = api.clock.now()
        api.clock.advance(60)
        await patch(api, api.path("configmaps", name="changed"), {"data": {"color": "red"}})
        await patch(api, api.path("secrets", name="key"), {"stringData": {"a": "swordfish"}})
        await api.delete("configmaps", "removed")
        for number in range(12):
            await api.create("configmaps", config_map(f"added-{number}"))
        # The cursor is after the newest event, which means the present.
        moments = {"at": rfc3339(api.clock.now() + 30_000_000), "second": rfc3339(middle)}
        await open_signed_in(api, page, **minutes(api, 5, 1), **moments)
        await page.click("#tab-comparison")
        await page.wait("document.querySelector('#comparison [data-change]')")
        counts = await page.text("#comparison .counts")
        assert [int(word) for word in counts.split() if word.isdigit()] == [12, 1, 2]
        for kind in ("configmaps", "secrets"):
            unfolded = (
                f"document.querySelector('#comparison [data-type={kind}] [data-change=changed] details')"
            )
            await page.run(f"{unfolded}.open = true")
            await page.wait(f"{unfolded}.querySelector('.compared') !== null")
        shown = await page.text("#comparison")
        assert "data.color blue → red" in shown and "another value" in shown
        for value in ("hunter2", "swordfish", "aHVudGVy", "c3dvcmRm"):
            assert value not in shown
        await page.click("#comparison [data-change=changed] button.link")
        await page.wait("document.getElementById('difference')?.dataset.shown")
        assert not await page.run("document.getElementById('object').hidden")
        # Without a second moment, the pane says how to set it.
        await page.click("#compare")
        await page.click("#tab-comparison")
        await page.wait("document.getElementById('comparison').innerText.includes('set the second moment')")


SHOWN = "document.getElementById('difference')?.dataset.shown ?? ''"
LISTED = "[...document.querySelectorAll('.versions [data-version]')].map((one) => one.dataset.version)"
CHOSEN = "document.querySelector('.versions [aria-current]')?.dataset.version ?? ''"


@pytest.mark.slow
async def test_an_old_version_of_an_object_with_many_is_shown(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        path = api.path("configmaps", name="web")
        api.clock.advance(3600)
        made = [await api.create("configmaps", config_map("web"))]
        times = [api.clock.now()]
        for number in range(106):
            api.clock.advance(1)
            made.append(await patch(api, path, {"data": {"number": str(number)}}))
            times.append(api.clock.now())
        versions = [one["metadata"]["resourceVersion"] for one in made]
        web = {"object": "configmaps/default/web", **minutes(api, 5, 1)}
        # A link to a version that is older than the hundred newest ones.
        await open_signed_in(api, page, right=versions[5], **web)
        await page.wait(f"({SHOWN}) === '{versions[4]}..{versions[5]}'")
        assert await page.run(CHOSEN) == versions[5]
        assert await page.run(LISTED) == versions[5::-1]
        await page.click("[data-part=yaml]")
        await page.wait(f"document.getElementById('yaml')?.dataset.version === {versions[5]!r}")
        assert 'number: "4"' in await page.text("#yaml")
        await page.click("[data-part=versions]")
        await page.wait("document.querySelector('.versions button')")
        await page.click(".versions > button")  # the newest versions
        await page.wait(f"({SHOWN}) === '{versions[-2]}..{versions[-1]}'")
        assert await page.run(LISTED) == versions[:6:-1]
        # More of them leave the chosen one marked; the last of a page has a version before it too.
        await page.run("document.querySelector('.versions tr:last-child .said').click()")
        await page.wait(f"({SHOWN}) === '{versions[6]}..{versions[7]}'")
        assert await page.run(LISTED) == versions[::-1] and await page.run(CHOSEN) == versions[7]
        # Without a version, that at the cursor is shown; if there was none yet, the newest, and the page says so.
        for moment, at in ((times[3] + 1, 3), (times[50] + 1, 50), (times[0] - 1, -1)):
            await page.go("about:blank")
            await page.go(address(api, at=rfc3339(moment), **web))
            await page.wait(f"({SHOWN}) === '{versions[at - 1]}..{versions[at]}'")
            assert ("The journal has no version of it" in await page.text("#part")) is (at < 0)


DOWNLOAD = """new Promise((found) => {
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => { blob.text().then(found); return create.call(URL, blob); };
    document.getElementById('download').click();
})"""


@pytest.mark.slow
async def test_an_object_has_yaml_to_download_and_links(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await api.delete("replicasets", "web-1")
        path = api.path("deployments", name="web")
        whole = (await api.ask("GET", path)).expect(200)
        await open_signed_in(api, page, object="deployments.apps/default/web", **minutes(api, 15, 1))
        await page.wait("document.getElementById('difference')?.dataset.shown")
        assert "spec.replicas 5 → 2" in await page.text(".versions")
        # YAML means the object, with and without what the server notes about its managers.
        await page.click("[data-part=yaml]")
        await page.wait("document.getElementById('yaml')?.innerText.includes('replicas: 2')")
        shown = yaml.safe_load(await page.run(DOWNLOAD))
        assert "managedFields" not in shown["metadata"]
        await page.click("#part [type=checkbox]")
        await page.wait("document.getElementById('yaml').innerText.includes('managedFields')")
        assert yaml.safe_load(await page.run(DOWNLOAD)) == whole
        first = await page.run("document.querySelector('#part option:last-child').value")
        await page.run(
            f"document.querySelector('#part select').value = {first!r};"
            "document.querySelector('#part select').dispatchEvent(new Event('change'))"
        )
        await page.wait(f"document.getElementById('yaml').dataset.version === {first!r}")
        assert yaml.safe_load(await page.run(DOWNLOAD))["metadata"]["generation"] == 1
        # Links: a dependent that was deleted, and what else the author did; each leads there.
        await page.click("[data-part=links]")
        await page.wait("document.querySelectorAll('#part section').length === 3")
        assert "replicasets.apps default/web-1 deleted" in await page.text(".tree")
        assert "configmaps default/settings" in await page.text(".authored")
        await page.click(".authored tbody button.link")
        await page.wait("document.getElementById('cursor').innerText.includes('version')")
        await page.click(".tree button.link")
        await page.wait("document.querySelector('#object h2').innerText === 'replicasets.apps default/web-1'")
        await page.wait("document.querySelectorAll('#part section').length === 3")
        assert "deployments.apps default/web" in await page.text(".tree button.link")

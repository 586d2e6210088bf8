"""The timeline of the page: lifelines below their kinds, folding, cursors, what the first view shows."""

from __future__ import annotations

import json

import pytest
import trio

from tests.browser.chromium import Page
from tests.browser.journal_page import LOADS, journal_page, minutes, open_signed_in, tell_story
from tests.gateway.api import config_map

ROWS = """(async () => (await import('./app.js')).lanes.rows.map(({ group, item, note, folded }) =>
    note ?? (item ? `${'  '.repeat(item.depth)}${item.name}` : `${group.label} ${folded ? '▸' : '▾'}`)))()"""


async def rows(page: Page) -> list[str]:
    found: list[str] = await page.run(ROWS)
    return found


async def point(page: Page, name: str, time: int, *, shift: bool = False) -> None:
    """Click the row of an object at a time."""
    at = [row.strip() for row in await rows(page)].index(name)
    await page.run(f"document.getElementById('lanes').scrollTop = {24 * at - 48}")
    x, y = await page.run(
        f"""(async () => {{
            const {{ lanes }} = await import('./app.js'), canvas = document.getElementById('timeline');
            const box = canvas.getBoundingClientRect();
            const top = 26 + 24 * {at} + 12 - document.getElementById('lanes').scrollTop;
            return [box.left + lanes.placeOf({time}), box.top + top];
        }})()"""
    )
    for kind in ("mousePressed", "mouseReleased"):
        await page.command(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left",
            clickCount=1,
            modifiers=8 if shift else 0,
        )


async def test_objects_are_bars_below_their_kinds(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, noise=1, **minutes(api, 15, 1))
        shown = await rows(page)
        at = shown.index("deployments ▾")
        assert shown[at + 1 : at + 3] == ["web", "  web-1"]
        assert shown[0] == "configmaps ▸"  # the busiest, with many objects
        assert shown[-1] == "without changes ▸"
        assert "replicasets ▸" in shown  # they are shown below their owners
        # A click on a tick leads to the change, and with Shift it sets the second cursor.
        events = "import('./app.js').then((app) => app.session.events(new URLSearchParams({type: 'deploy'})))"
        scaled = (await page.run(events))["items"][3]
        await point(page, "web", scaled["micros"])
        await page.wait("document.getElementById('difference')?.dataset.shown")
        assert f"version {scaled['version']}" in await page.text("#cursor")
        await page.wait(f"location.hash.includes('at={scaled['version']}')")
        await point(page, "web", scaled["micros"] - 100_000_000, shift=True)
        await page.wait("document.getElementById('compare').ariaPressed === 'true'")
        await page.wait("location.hash.includes('second=')")
        await page.click("#compare")
        await page.wait("document.getElementById('compare').ariaPressed === 'false'")
        # Keys choose rows, and fold them.
        await page.run("document.getElementById('timeline').focus()")
        await page.press("ArrowUp")
        assert (await page.text("#hover")).startswith("deployments: 9 changes")
        await page.press("ArrowDown")
        assert (await page.text("#hover")).startswith("deployments.apps default/web: 9 changes")
        await page.press("ArrowUp")
        await page.press("Enter")
        assert "deployments ▸" in await rows(page)
        await page.press("f", "f")
        assert all(row.endswith("▸") for row in await rows(page))
        # Noise goes with one click, is hidden at first, and the choice is remembered.
        loads = await page.run(LOADS)
        await page.click("#noise")
        await page.wait(f"{LOADS} > {loads}")
        assert "events ▾" in shown and "events ▾" not in await rows(page)
        await page.click("#noise")
        await page.wait(f"{LOADS} > {loads + 1}")
        await page.run("history.replaceState(null, '', location.pathname)")
        await page.run("location.reload()")
        await page.wait("document.getElementById('noise')?.ariaPressed === 'false'")


@pytest.mark.slow
async def test_kinds_below_others_unfold_too(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, **minutes(api, 15, 1))
        toggle = "lanes.rows.find((row) => row.group?.label === 'replicasets')"
        await page.run(f"import('./app.js').then(({{ lanes }}) => lanes.toggle({toggle}))")
        with trio.fail_after(60):
            while (shown := await rows(page))[shown.index("replicasets ▾") + 1] != "web-1":
                await page.run("new Promise(requestAnimationFrame)")
        # They stay when the range moves, and a range without changes says so.
        await page.run("document.getElementById('timeline').focus()")
        loads = await page.run(LOADS)
        await page.press("ArrowRight")
        await page.wait(f"{LOADS} > {loads}")
        shown = await rows(page)
        assert shown[shown.index("replicasets ▾") + 1] == "web-1"
        for _ in range(16):
            await page.press("ArrowRight")
        await page.wait("!document.getElementById('nothing').hidden")
        assert "The newest change was at" in await page.text("#nothing")
        assert await rows(page) == ["without changes ▸"]


@pytest.mark.slow
async def test_the_first_view_has_events_however_old(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        api.clock.advance(7 * 3600)
        await open_signed_in(api, page)
        await page.wait("document.querySelectorAll('#events li').length > 20")
        assert "deployments" in await page.text("#headline")


@pytest.mark.slow
async def test_an_empty_range_says_what_to_click(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        api.clock.advance(7 * 3600)
        await open_signed_in(api, page, **minutes(api, 5, 0), name="nobody")
        await page.wait("!document.getElementById('nothing').hidden")
        assert "matches the filter" in await page.text("#nothing")
        for words in ("Clear the filter", "Show the newest changes"):
            loads = await page.run(LOADS)
            await page.run(
                "[...document.querySelectorAll('#nothing button')]"
                f".find((one) => one.innerText === {json.dumps(words)}).click()"
            )
            await page.wait(f"{LOADS} > {loads}")
        await page.wait("document.querySelectorAll('#events li').length > 20")
        assert await page.run("document.getElementById('nothing').hidden")


@pytest.mark.slow
async def test_a_kind_that_does_not_exist_is_named(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, **minutes(api, 15, 1))
        await page.type("[name=type]", "deplyments")
        await page.run("document.getElementById('filters').requestSubmit()")
        await page.wait("document.getElementById('message').innerText.includes('deployments.apps')")
        assert "deplyments" in await page.text("#message")


@pytest.mark.slow
async def test_a_kind_with_many_objects_begins_folded(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        api.clock.advance(3600)
        for number in range(45):
            await api.create("configmaps", config_map(f"many-{number}"))
        await open_signed_in(api, page, **minutes(api, 5, 1))
        assert await rows(page) == ["configmaps ▸", "without changes ▸"]
        await page.click("#fold")
        await page.wait("Number(document.getElementById('timeline').ariaLabel.match(/[0-9]+/)) > 46")
        # The last row is reached by keys; the box scrolls.
        await page.run("document.getElementById('timeline').focus()")
        for _ in range(6):
            await page.press("PageDown")
        await page.wait("document.getElementById('lanes').scrollTop > 0")

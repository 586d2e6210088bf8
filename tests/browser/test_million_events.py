"""A day with a million events: how much the page transfers to show it, and how fast it draws while it zooms."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rewound.actors.rewind.moments import rfc3339
from tests.actors.object_store import memory_folder
from tests.browser.chromium import Page, open_page
from tests.browser.journal_page import LOADS, address, sign_in
from tests.browser.million import DAY, add_events
from tests.gateway.api import Api, served

MOST_BYTES = 1_000_000
LEAST_FRAMES = 30  # per second
ATTEMPTS = 5  # the machine may do something else

ROWS = "Number(document.getElementById('timeline').ariaLabel.match(/[0-9]+/))"
# Zooms from the day to a millisecond and back, moves on the way, and measures how many frames that took.
ZOOM = """(async () => {
  const { lanes } = await import("./app.js");
  const { zoom, pan, spanOf } = await import("./scale.js");
  const day = lanes.view, middle = (day.from + day.to) / 2 + 12345;
  const frame = () => new Promise((done) => lanes.addEventListener("painted", done, { once: true }));
  const frames = 150, factor = Math.pow(1000 / spanOf(day), 2 / frames);
  const began = performance.now();
  for (let at = 0; at < frames; at++) {
    const next = zoom(lanes.view, at < frames / 2 ? factor : 1 / factor, middle);
    lanes.show(pan(next, spanOf(next) / 300 * (at % 2 ? 1 : -1)));
    await frame();
  }
  const perSecond = frames / ((performance.now() - began) / 1000);
  lanes.show(day);
  return perSecond;
})()"""


async def all_counted(page: Page) -> None:
    """Wait until the page has counted all events: a newly opened journal is still being indexed."""
    total = "(app) => app.lanes.rows.reduce((sum, row) => sum + (row.group?.row?.total ?? 0), 0)"
    with trio.fail_after(300):
        while await page.run(f'import("./app.js").then({total})') < 990_000:
            await trio.sleep(0.5)


async def first_picture(api: Api, page: Page, state: dict[str, str]) -> str:
    """How long it takes from the sign-in to kinds, to their objects, and to the state at the cursor."""
    await page.go(address(api, **state))
    await page.wait("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")
    began, times = trio.current_time(), []
    await sign_in(page)
    for condition in (
        "document.body.dataset.counted",
        f"{LOADS} > 0",
        "document.getElementById('state').getAttribute('aria-busy') === 'false'",
    ):
        if "state" in condition:
            await page.click("#tab-state")
        await page.wait(condition)
        times.append(f"{trio.current_time() - began:.1f} s")
    return ", ".join(times)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_page_shows_a_million_events(chromium: str) -> None:
    with memory_folder() as folder:
        async with served(folder, journal_retention=None) as api:
            await api.finish()
            add_events(Path(api.settings.journal), 1_000_000)
            await api.start(prepared=True)
            api.clock.advance(DAY / 1e6)
            now = api.clock.now()
            state = {"from": rfc3339(now - DAY), "to": rfc3339(now)}
            async with open_page(chromium) as page:
                print(await first_picture(api, page, state), "to show a journal for the first time")
                await all_counted(page)
            await api.finish()
            await api.start(prepared=True)
            async with open_page(chromium) as page:
                print(await first_picture(api, page, state), "to show a journal that was opened before")
                await page.run('import("./app.js").then((app) => app.lanes.foldAll(false))')
                await page.wait(f"{ROWS} > 100")
                shown = await page.run(ROWS)
                await all_counted(page)
                print(f"{page.received} bytes to show a million events in {shown} rows")
                assert page.received < MOST_BYTES
                measured = 0.0
                for _ in range(ATTEMPTS):
                    loads = await page.run(LOADS)
                    measured = max(measured, await page.run(ZOOM))
                    await page.wait(f"{LOADS} > {loads}")
                    if measured > LEAST_FRAMES:
                        break
                print(f"{measured:.0f} frames a second")
                assert measured > LEAST_FRAMES

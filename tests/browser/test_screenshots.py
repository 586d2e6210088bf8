"""Every screen of the page, light and dark, wide and narrow. `make browser-test` keeps the pictures in docs/images."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.chromium import Page, open_page
from tests.browser.journal_page import LOADS, sign_in
from tests.browser.living_cluster import PAGE, living_cluster
from tests.browser.pictures import smaller

MOST_BYTES = 160_000
SIZES = [(1280, 900), (400, 860)]
# Fields have one height; what belongs together is in one row: title and user, both directions of zooming.
ALIGNED = """(() => {
    const box = (selector) => document.querySelector(selector).getBoundingClientRect();
    const together = (one, other) => box(one).top < box(other).bottom && box(other).top < box(one).bottom;
    const fields = [...document.querySelectorAll('#filters input, #filters select')].filter((one) => one.offsetWidth);
    return new Set(fields.map((one) => one.getBoundingClientRect().height)).size === 1
        && (innerWidth < 500 || together('h1', '#sign-out')) && together('#zoom-in', '#zoom-out');
})()"""
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SCALED = """(() => [...document.querySelectorAll('#events button')]
    .find((one) => one.innerText.includes('deployments') && one.innerText.includes('2 → 4')).click())()"""


class Album:
    def __init__(self, page: Page, folder: Path) -> None:
        self._page = page
        self._folder = folder

    async def take(self, name: str, width: int, height: int, scheme: str) -> None:
        page = self._page
        await page.size(width, height)
        await page.scheme(scheme)
        await page.wait("document.getElementById('timeline').getAttribute('aria-busy') !== 'true'")
        await page.run(FRAMES)
        # Nothing is wider than the window.
        assert await page.run("document.documentElement.scrollWidth") <= width
        path = self._folder / f"{name}-{width}-{scheme}.png"
        path.write_bytes(smaller(await page.screenshot()))
        assert 4_000 < path.stat().st_size < MOST_BYTES

    async def take_all(self, name: str) -> None:
        for width, height in SIZES:
            for scheme in ("light", "dark"):
                await self.take(name, width, height, scheme)
        await self._page.size(*SIZES[0])


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_pictures_of_the_page(chromium: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("JOURNAL_PAGE_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    with living_cluster() as (server, token):
        async with open_page(chromium) as page:
            album = Album(page, folder)
            await page.go(f"{server.url}{PAGE}#noise=0")
            await page.wait("document.getElementById('sign-in')?.hidden === false")
            await page.size(1280, 400)
            (folder / "journal-sign-in-1280-light.png").write_bytes(smaller(await page.screenshot()))
            await page.size(*SIZES[0])
            await sign_in(page, token)
            await page.wait(f"{LOADS} > 0")
            # The picture, with the cursor at one of the changes of the two controllers.
            await page.run(SCALED)
            await page.wait("document.getElementById('difference')?.dataset.shown")
            assert await page.run(ALIGNED) is True
            assert "autoscaler and deployer changed spec.replicas" in await page.text("#headline")
            await album.take_all("journal-page")
            await page.run("document.getElementById('detail').scrollIntoView()")
            await album.take("journal-object", 1280, 900, "light")
            # Two moments: before the rollout and now.
            await page.click("#compare")
            await page.wait("document.querySelector('#comparison [data-change]')")
            await page.run("document.getElementById('detail').scrollIntoView()")
            await album.take("journal-comparison", 1280, 900, "light")
            await page.click("#compare")
            await page.click("#tab-state")
            await page.wait("document.getElementById('state').getAttribute('aria-busy') === 'false'")
            await page.run("document.getElementById('detail').scrollIntoView()")
            await album.take("journal-state", 1280, 900, "light")
            # A text, found in the whole journal.
            await page.run("scrollTo(0, 0)")
            loads = await page.run(LOADS)
            await page.type("[name=q]", "web:2")
            await page.run("document.getElementById('filters').requestSubmit()")
            await page.wait(f"{LOADS} > {loads}")
            await page.wait("document.querySelector('#events mark')")
            await album.take("journal-search", 1280, 900, "light")

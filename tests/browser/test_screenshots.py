"""The page in light and dark, wide and narrow. `make browser-test` keeps the pictures in docs/images."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.journal_page import LOADS, journal_page, minutes, open_signed_in, tell_story
from tests.browser.pictures import smaller

MOST_BYTES = 150_000
SIZES = [(1280, 900), (400, 860)]
# Fields have one height; what belongs together is in one row: title and user, both directions of zooming.
ALIGNED = """(() => {
    const box = (selector) => document.querySelector(selector).getBoundingClientRect();
    const together = (one, other) => box(one).top < box(other).bottom && box(other).top < box(one).bottom;
    const fields = [...document.querySelectorAll('#filters input, #filters select')];
    return new Set(fields.map((one) => one.getBoundingClientRect().height)).size === 1
        && together('h1', '#sign-out') && together('#zoom-in', '#zoom-out');
})()"""


@pytest.mark.slow
async def test_pictures_of_the_page(chromium: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("JOURNAL_PAGE_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        await open_signed_in(api, page, **minutes(api, 11, 1))
        await page.run("document.getElementById('timeline').focus()")
        await page.run(
            "[...document.querySelectorAll('#events button')]"
            ".find((one) => one.innerText.includes('deployments.apps')).click()"
        )
        await page.wait("document.getElementById('difference')?.dataset.shown")
        for width, height in SIZES:
            await page.size(width, height)
            for scheme in ("light", "dark"):
                await page.scheme(scheme)
                loads = await page.run(LOADS)
                await page.run("document.getElementById('filters').requestSubmit()")
                await page.wait(f"{LOADS} > {loads}")
                await page.run(
                    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
                )
                # Nothing is wider than the window.
                assert await page.run("document.documentElement.scrollWidth") <= width
                assert await page.run(ALIGNED) is True
                path = folder / f"journal-page-{width}-{scheme}.png"
                path.write_bytes(smaller(await page.screenshot()))
                assert 10_000 < path.stat().st_size < MOST_BYTES

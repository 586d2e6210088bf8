"""Gaps of a recording on the page: the picture marks them, and a moment in one says so."""

from __future__ import annotations

from rewound.recording.record.gaps import EXPIRED, STOPPED, Gaps
from tests.browser.journal_page import LOADS, journal_page, minutes, open_signed_in, tell_story
from tests.browser.test_lanes import rows
from tests.browser.test_modules import NOON, call

CURSOR = "document.getElementById('cursor').innerText"
HOVER = """(async () => {{
    const {{ lanes }} = await import('./app.js'), canvas = document.getElementById('timeline');
    const box = canvas.getBoundingClientRect();
    const [x, y] = [box.left + lanes.placeOf({time}), box.top + 26 + 24 * {row} + 12];
    canvas.dispatchEvent(new PointerEvent('pointermove', {{ clientX: x, clientY: y }}));
    return document.getElementById('hover').textContent;
}})()"""


async def test_a_moment_in_a_gap_says_so(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await tell_story(api)
        now, made = api.clock.now(), Gaps(api.settings.data_dir)
        made.add(EXPIRED, now - 300_000_000, now - 120_000_000, "deployments.apps", "", missing=True)
        made.begin(STOPPED, now - 30_000_000)
        await open_signed_in(api, page, **minutes(api, 15, 1))
        shown = await page.text("#range")
        assert "deployments.apps not recorded from" in shown and "versions are missing" in shown
        assert "and 1 more" in shown and "not recorded" in await page.text("#legend")
        # Only the rows of the kind have it, and moments outside of it do not.
        names = await rows(page)
        deployments = next(at for at, name in enumerate(names) if name.startswith("deployments"))
        config_maps = next(at for at, name in enumerate(names) if name.startswith("configmaps"))
        inside = now - 180_000_000
        assert "versions are missing" in await page.run(HOVER.format(time=inside, row=deployments))
        assert "not recorded" not in await page.run(HOVER.format(time=inside, row=config_maps))
        for seconds, why in ((180, "versions are missing"), (60, ""), (10, "the recorder did not run")):
            await page.run(
                f"import('./app.js').then(({{ lanes }}) => {CURSOR_AT.format(now - seconds * 1_000_000)})"
            )
            text = await page.run(CURSOR)
            assert why in text and ("not recorded" in text) is bool(why)
        assert await page.run(LOADS) > 0


CURSOR_AT = "lanes.dispatchEvent(new CustomEvent('cursor', {{ detail: {{ time: {} }} }}))"


async def test_texts_of_gaps(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await open_signed_in(api, page)
        kinds = ["a", "b", "c", "d", "e\u202e"]
        gap = {"fromMicros": NOON, "why": "unreachable", "kinds": kinds, "missing": False}
        text = await call(page, "gaps.js", "m.gapText(gap)", gap=gap)
        assert text.startswith("a, b, c and 2 more kinds not recorded from 2023-11-15 12:00:00")
        assert text.endswith(" on: the API server did not respond")
        over = {**gap, "toMicros": NOON + 5, "kinds": [], "why": "<b>\u202e", "missing": True}
        text = await call(page, "gaps.js", "m.gapText(gap)", gap=over)
        assert text.startswith("not recorded from") and text.endswith("<b>\\u202e")
        both, view = [gap, over], {"from": NOON + 5, "to": NOON + 9}
        assert await call(page, "gaps.js", "m.gapsIn(gaps, view)", gaps=both, view=view) == [gap]
        assert await call(page, "gaps.js", "m.gapsIn(gaps, view, 'pods')", gaps=both, view=view) == []
        assert await call(page, "gaps.js", f"m.worst(m.gapsAt(gaps, {NOON}))", gaps=both) == over
        assert await call(page, "gaps.js", f"m.gapsAt(gaps, {NOON - 1})", gaps=both) == []

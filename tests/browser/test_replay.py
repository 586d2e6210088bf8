"""The page of a replay moves the replay, and shows what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.recording.replay.player import Moment
from rewound.recording.replay.replay import Plan
from tests.browser.chromium import open_page
from tests.browser.journal_page import open_signed_in
from tests.recording.replay.replaying import replayed
from tests.rewind.page.test_replayed_timeline import record

DAYS = {"from": "2020-01-01T00:00:00.000000Z", "to": "2030-01-01T00:00:00.000000Z"}


def shows(many: int) -> str:
    return f"document.querySelectorAll('#events li').length === {many}"


@pytest.mark.slow
async def test_the_page_moves_a_replay(chromium: str, tmp_path: Path) -> None:
    record(tmp_path)
    async with replayed(tmp_path, Plan(at=Moment(3, 0))) as replay, open_page(chromium) as page:
        await open_signed_in(replay.api, page, **DAYS)
        await page.wait("!document.getElementById('replay-now').hidden")
        await page.wait(shows(3))
        assert "version 3" in await page.text("#replay-now")
        await page.click("#step-on")
        await page.wait(shows(4))
        await page.click("#step-back")
        await page.wait(shows(3))
        await page.run("document.getElementById('speed').value = '3600'")
        await page.click("#play")
        await page.wait(shows(6))
        await page.wait("document.getElementById('replay-now').innerText.includes('the end')")
        assert (await replay.state())["version"] == "6"

"""Suspects of a failing object: one click in the heading, and a part of every object."""

from __future__ import annotations

from tests.browser.journal_page import journal_page, minutes, open_signed_in
from tests.gateway.api import ALICE
from tests.rewind.page.test_suspects import incident
from tests.rewind.test_at import allow

SHOWN = "[...document.querySelectorAll('.suspects > li')].map((one) => one.innerText)"


async def test_one_click_explains_an_object_that_fails(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await incident(api)
        await open_signed_in(api, page, **minutes(api, 30, 1))
        button = (
            "[...document.querySelectorAll('#headline button')].find((one) => one.innerText === 'Suspects')"
        )
        await page.wait(button)
        await page.run(f"{button}.click()")
        await page.wait("document.querySelectorAll('.suspects > li').length >= 2")
        assert "CrashLoopBackOff since" in await page.text("#broke")
        first, second, *_ = await page.run(SHOWN)
        assert "secrets default/token was changed" in first and "by admin" in first
        assert "pod web reads it; right before it broke" in first
        assert "configmaps default/settings was changed" in second and "blue → bleu" in second
        assert "hunter2" not in first and "***" in first
        # A suspect leads to its change; another object begins with its versions.
        await page.run("document.querySelectorAll('.suspects > li button')[1].click()")
        await page.wait("document.querySelector('#object h2').innerText === 'configmaps default/settings'")
        await page.wait("document.querySelector('#object [data-part=versions]').ariaPressed === 'true'")


async def test_a_user_sees_no_suspects_that_he_may_not_list(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await incident(api)
        await allow(api, {"apiGroups": [""], "resources": ["pods", "pods/history"], "verbs": ["get", "list"]})
        await open_signed_in(api, page, token=ALICE, namespace="default", **minutes(api, 30, 1))
        button = (
            "[...document.querySelectorAll('#headline button')].find((one) => one.innerText === 'Suspects')"
        )
        await page.wait(button)
        await page.run(f"{button}.click()")
        await page.wait("document.getElementById('broke')")
        shown = await page.text("#part")
        assert "secrets of namespace default: you may not list them" in shown
        assert "token" not in shown and "settings" not in shown

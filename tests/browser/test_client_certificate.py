"""The page authenticates with a client certificate of the browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import find_chromium, open_page, running_chromium
from tests.browser.client_certificates import add_client_certificate, missing_tools, select_certificates
from tests.browser.journal_page import address, minutes, tell_story
from tests.gateway.https import Kubeconfig, served_securely

EVENTS = "document.querySelectorAll('#events li').length > 20"


@pytest.mark.slow
async def test_a_client_certificate_signs_in(tmp_path: Path) -> None:
    program = find_chromium()
    if program is None:
        pytest.skip("needs Chromium: make browser-test installs it")
    if missing := missing_tools():
        pytest.skip(f"needs {' and '.join(missing)} of libnss3-tools: make browser-test installs them")
    async with served_securely() as api:
        await tell_story(api)
        user = Kubeconfig(api.settings.kubeconfig)
        add_client_certificate(tmp_path / "home", user.certificate, user.key)
        select_certificates(tmp_path / "profile")
        with running_chromium(program, tmp_path / "profile", tmp_path / "home") as chromium:
            async with open_page(chromium) as page:
                await page.go(address(api, **minutes(api, 15, 1)))
                await page.wait(EVENTS)
                assert await page.text("#user") == "admin"
                assert await page.run("document.getElementById('sign-in').hidden")
                # There is no token to forget.
                assert await page.run("document.getElementById('sign-out').hidden")
                assert await page.run("sessionStorage.length") == 0


@pytest.mark.slow
async def test_a_browser_without_a_certificate_asks_for_a_token(chromium: str) -> None:
    async with served_securely() as api, open_page(chromium) as page:
        await tell_story(api)
        await page.go(address(api, **minutes(api, 15, 1)))
        await page.wait("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")
        assert await page.run("document.querySelectorAll('#events li').length") == 0

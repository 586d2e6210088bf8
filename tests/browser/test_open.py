"""`rewound open` leads a browser, signed in, to an object at its moment; no certificate stands in the way."""

from __future__ import annotations

from pathlib import Path

from tests.browser.chromium import open_page
from tests.browser.journal_page import tell_story
from tests.gateway.cli.open.process import opened_in_browser
from tests.gateway.https import served_securely


async def test_the_link_leads_to_the_object(chromium: str, tmp_path: Path) -> None:
    async with served_securely() as api, open_page(chromium) as page:
        await tell_story(api)
        arguments = ("--kubeconfig", str(api.settings.kubeconfig), "deploy", "web")
        async with opened_in_browser(tmp_path, *arguments) as link:
            await page.go(link)
            await page.wait("location.pathname === '/debug/journal/' && document.getElementById('events')")
            await page.wait("document.querySelectorAll('#events li').length > 0")
            assert await page.text("#user") == "admin"
            assert await page.run("document.getElementById('sign-in').hidden")
            assert await page.run("document.getElementById('sign-out').hidden")
            # Scripts see nothing of the credentials, nor of what lets this browser in.
            assert await page.run("document.cookie") == ""
            assert await page.run("sessionStorage.length + localStorage.length") == 0
            assert "object=deployments.apps%2Fdefault%2Fweb" in await page.run("location.hash")
            await page.wait("document.getElementById('object')?.innerText.includes('web')")
            # A reload, and another tab, stay signed in.
            await page.run("location.reload()")
            await page.wait("document.querySelectorAll('#events li').length > 0")
            refused = "fetch('/api/v1/namespaces', {method: 'POST', body: '{}'}).then((one) => one.status)"
            assert await page.run(refused) == 405

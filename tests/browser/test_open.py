"""`rewound open` takes a signed-in browser to an object at a moment, without certificate warnings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from tests.browser.chromium import open_page
from tests.browser.journal_page import LOADS, tell_story
from tests.cli.open.opened import opened, target_of
from tests.cli.open.process import opened_in_browser
from tests.client.fake_server import fake_server
from tests.gateway.https import served_securely


@pytest.mark.slow
async def test_the_link_leads_to_the_object(chromium: str, tmp_path: Path) -> None:
    async with served_securely() as api, open_page(chromium) as page:
        await tell_story(api)
        arguments = ("--kubeconfig", str(api.settings.kubeconfig), "deploy", "web")
        async with opened_in_browser(tmp_path, *arguments) as link:
            await page.go(link)
            await page.wait(f"location.pathname === '/debug/journal/' && {LOADS} > 0")
            assert await page.text("#user") == "admin"
            assert await page.run("document.getElementById('sign-in').hidden")
            assert await page.run("document.getElementById('sign-out').hidden")
            # Scripts see nothing of the credentials, nor of what lets this browser in.
            assert await page.run("document.cookie") == ""
            assert (
                await page.run("Object.keys({ ...sessionStorage, ...localStorage }).join()")
                == "journal-authors"
            )
            assert "object=deployments.apps%2Fdefault%2Fweb" in await page.run("location.hash")
            await page.wait("document.getElementById('object')?.innerText.includes('web')")
            # A reload, and another tab, stay signed in.
            await page.run("delete document.body.dataset.loads")
            await page.run("location.reload()")
            await page.wait(f"{LOADS} > 0")
            refused = "fetch('/api/v1/namespaces', {method: 'POST', body: '{}'}).then((one) => one.status)"
            assert await page.run(refused) == 405


ATTACK = """
(async () => {
  const at = "http://%s", options = { mode: "no-cors", credentials: "include" };
  const types = "/apis/rewound.cluster.io/v1/timeline/types", replay = "/debug/rewound/replay";
  const body = JSON.stringify({ action: "back" });
  await fetch(at + types, options).catch(() => null);
  await fetch(at + replay, { ...options, method: "POST", body }).catch(() => null);
  await fetch(at + types, { credentials: "include" }).catch(() => null);
  const loaded = (name, more) => new Promise((done) => {
    const one = Object.assign(document.createElement(name), more);
    one.onload = one.onerror = done;
    document.body.append(one);
  });
  await loaded("script", { src: at + types });
  await loaded("img", { src: at + types });
  await loaded("iframe", { src: at + "/debug/journal/" });
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: at + replay, enctype: "text/plain" });
  const frame = Object.assign(document.createElement("iframe"), { name: "target" });
  document.body.append(form, frame);
  form.target = "target";
  await new Promise((done) => { frame.onload = done; form.submit(); });
  return true;
})()
"""


async def _serve_empty_page(stream: trio.SocketStream) -> None:
    await stream.receive_some(65536)
    body = b"<!doctype html><title>Another site</title><body><a id=link>A link</a>"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    await stream.send_all(head % len(body) + body)


async def test_other_sites_in_the_same_browser_reach_nothing(chromium: str) -> None:
    """One on another port of this machine is the same site: the browser sends it the cookie."""
    with fake_server(plain=True) as server:
        async with (
            opened(target_of(server.url)) as listening,
            open_page(chromium) as page,
            trio.open_nursery() as nursery,
        ):
            (other,) = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), _serve_empty_page, 0)
            port = other.socket.getsockname()[1]
            # A click on the link in another site signs in, too.
            await page.go(f"http://localhost:{port}/")
            await page.wait("document.getElementById('link')")
            await page.run(f"document.getElementById('link').href = '{listening.listener.gate.new_link()}'")
            await page.click("#link")
            await page.wait("location.pathname === '/debug/journal/'")
            assert [one.path for one in server.requests] == ["/debug/journal/"]
            for host in ("127.0.0.1", "localhost"):
                await page.go(f"http://{host}:{port}/")
                await page.wait("document.title === 'Another site'")
                assert await page.run(ATTACK % listening.host)
            assert [one.path for one in server.requests] == ["/debug/journal/"]
            # What Chromium says to the attacker: frames are refused.
            assert all("frame" in one for one in page.problems), page.problems
            page.problems.clear()
            nursery.cancel_scope.cancel()

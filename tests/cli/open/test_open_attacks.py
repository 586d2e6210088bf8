"""Other programs on the machine and other sites in the browser cannot make `rewound open` do anything."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rewound.cli.open.gate import LINK_SECONDS, MAX_BROWSERS, Gate
from rewound.gateway.message import Peer, Request
from tests.cli.open.opened import PAGE, opened, target_of
from tests.client.fake_server import fake_server

TYPES = "/apis/rewound.cluster.io/v1/timeline/types"
REPLAY = "/debug/rewound/replay"
JSON = {"accept": "application/json"}


async def test_nothing_passes_without_the_cookie_of_a_link() -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            cookie = await page.sign_in()
            name = cookie.partition("=")[0]
            for sent in ("", f"{name}=", f"{name}=guess", cookie[:-1], cookie.replace(name, "other")):
                for path in ("/debug/journal/", "/debug/journal/app.js", TYPES, "/", "/api/v1/secrets"):
                    refused = await page.ask("GET", path, cookie=sent)
                    assert refused.status == 403
                    assert "use the link that `rewound open` printed" in refused.text
            assert (await page.ask("POST", REPLAY, b"{}", origin=f"http://{page.host}")).status == 403
            assert server.requests == []
            assert (await page.ask("GET", TYPES, cookie=f"other=1; {cookie}")).status == 200


async def test_other_names_of_this_machine_are_refused() -> None:
    """A site whose name its owner resolves to 127.0.0.1 would be the same origin as the page."""
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            cookie, port = await page.sign_in(), page.listener.port
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
                code = page.new_code()
                assert (await page.ask("GET", code, host=host)).status == 403
                assert (await page.ask("GET", code)).status == 200
                assert (await page.ask("GET", TYPES, cookie=cookie, host=host)).status == 403
            assert server.requests == []
            assert (await page.ask("GET", TYPES, cookie=cookie, host=f"localhost:{port}")).status == 200


async def test_requests_of_other_sites_are_refused() -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            cookie, own = await page.sign_in(), f"http://{page.host}"
            # Another port of this machine is another origin, but the same site: its requests have the cookie.
            for site in ("cross-site", "same-site", "evil"):
                assert (await page.ask("GET", TYPES, cookie=cookie, sec_fetch_site=site)).status == 403
            for origin in ("http://evil.example", "http://127.0.0.1:1", "null", f"https://{page.host}", ""):
                assert (await page.ask("GET", TYPES, cookie=cookie, origin=origin)).status == 403
                sent = await page.ask("POST", REPLAY, b"{}", cookie=cookie, origin=origin)
                assert sent.status == 403
            assert (await page.ask("POST", REPLAY, b"{}", cookie=cookie)).status == 403
            assert server.requests == []
            for site in ("same-origin", "none"):
                assert (await page.ask("GET", TYPES, cookie=cookie, sec_fetch_site=site)).status == 200
            moved = await page.ask("POST", REPLAY, b'{"action": "step"}', cookie=cookie, origin=own)
            assert moved.status == 200
            assert server.requests[-1].body == b'{"action": "step"}'


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/api/v1/namespaces/default/configmaps/web", 405),
        ("DELETE", "/api/v1/namespaces/default", 405),
        ("POST", "/api/v1/namespaces", 405),
        ("POST", f"{REPLAY}/", 405),
        ("PATCH", REPLAY, 405),
        ("GET", "/api/v1/namespaces/default/pods/web/exec?command=sh", 403),
        ("GET", "/api/v1/namespaces/default/pods/web/log", 403),
        ("GET", "/api/v1/namespaces/default/services/web/proxy/admin", 403),
        ("GET", "/api/v1/nodes/a/proxy/run", 403),
        ("GET", "/metrics", 403),
        ("GET", "/debug/pprof/", 403),
        ("GET", "/debug/rewound/clock", 403),
        ("POST", "/", 400),
        ("GET", "/debug/journal/\xff", 400),
        ("GET", "/debug/journal/../../metrics", 400),
        ("GET", "/debug/journal/%2e%2e/%2E./metrics", 400),
        ("GET", "/debug/journal/..%2f..%2fmetrics", 400),
        ("GET", "/debug/journal/..%5c..%5cmetrics", 400),
        ("GET", "/debug/journal//metrics", 400),
        ("GET", "//evil.example/debug/journal/", 400),
        ("GET", "/apis/rewound.cluster.io/../../metrics", 400),
        ("GET", "/debug/journal/%00", 400),
    ],
)
async def test_only_what_the_page_needs_is_forwarded(method: str, path: str, status: int) -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            cookie = await page.sign_in()
            found = await page.ask(method, path, cookie=cookie, origin=f"http://{page.host}")
            assert found.status == status
            assert server.requests == []


async def test_bodies_are_bounded_and_upgrades_refused() -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            cookie = await page.sign_in()
            own: dict[str, Any] = {"cookie": cookie, "origin": f"http://{page.host}"}
            assert (await page.ask("POST", REPLAY, b"x" * 20_000, **own)).status == 413
            chunked = {**own, "transfer_encoding": "chunked"}
            assert (await page.ask("POST", REPLAY, b"2\r\n{}\r\n0\r\n\r\n", **chunked)).status == 411
            assert (await page.ask("GET", TYPES, b"{}", cookie=cookie)).status == 405
            upgrade = {"cookie": cookie, "connection": "close, Upgrade", "upgrade": "websocket"}
            assert (await page.ask("GET", TYPES, **upgrade)).status == 403
            assert server.requests == []


async def test_a_link_has_one_use() -> None:
    """The session that used it before is signed out: one of the two got the link from somewhere else."""
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            code = page.new_code()
            assert (await page.ask("HEAD", code)).status == 405
            assert (await page.ask("GET", code, sec_purpose="prefetch;prerender")).status == 403
            first = await page.ask("GET", code)
            assert first.status == 200 and "no-store" in first.headers["cache-control"]
            cookie, *attributes = first.headers["set-cookie"].split("; ")
            assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
            assert PAGE.replace("&", "&amp;") in first.text
            # The browser that has it may load it again.
            assert (await page.ask("GET", code, cookie=cookie)).status == 200
            assert (await page.ask("GET", TYPES, cookie=cookie)).status == 200
            assert page.reported == []
            assert (await page.ask("GET", code)).status == 403
            assert (await page.ask("GET", TYPES, cookie=cookie)).status == 403
            assert (await page.ask("GET", code, cookie=cookie)).status == 403
            assert len(page.reported) == 1 and "both are signed out" in page.reported[0]
            assert (await page.ask("GET", "/open/guess")).status == 403
            assert (await page.ask("GET", "/open/")).status == 403


class _Browser:
    """Uses links at any time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.gate = Gate(8000, PAGE, lambda: self.now, lambda text: None)

    def get(self, path: str, cookie: str = "") -> tuple[int, str]:
        """The status, 0 if the request is forwarded, and the cookie that is set."""
        headers = {b"host": b"127.0.0.1:8000", b"cookie": cookie.encode()}
        found = self.gate.refuse(Request("GET", path, "", headers, b"", Peer("127.0.0.1")))
        if found is None:
            return 0, ""
        return found.status, dict(found.headers).get(b"set-cookie", b"").decode().partition(";")[0]

    def new_code(self) -> str:
        return self.gate.new_link().removeprefix("http://127.0.0.1:8000")


def test_a_link_expires_and_a_new_one_replaces_it() -> None:
    browser = _Browser()
    late = browser.new_code()
    browser.now = LINK_SECONDS + 0.1
    assert browser.get(late)[0] == 403
    replaced, code = browser.new_code(), browser.new_code()
    assert browser.get(replaced)[0] == 403
    browser.now += LINK_SECONDS
    assert browser.get(code)[0] == 200


def test_few_browsers_are_signed_in_at_once() -> None:
    browser = _Browser()
    cookies = [browser.get(browser.new_code())[1] for _ in range(MAX_BROWSERS + 1)]
    assert len(set(cookies)) == MAX_BROWSERS + 1
    assert browser.get(TYPES, cookies[0])[0] == 403
    assert [browser.get(TYPES, one)[0] for one in cookies[1:]] == [0] * MAX_BROWSERS


async def test_refusals_are_text_for_people_and_a_status_for_the_page() -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            found = await page.ask("GET", TYPES, **JSON)
            assert found.status == 403 and '"kind":"Status"' in found.text.replace(" ", "")
            found = await page.ask("GET", TYPES, accept="text/html")
            assert found.headers["content-type"] == "text/plain; charset=utf-8"
            assert "sandbox" in found.headers["content-security-policy"]


async def test_halves_of_heads_do_not_lock_the_browser_out() -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            cookie = await page.sign_in()
            halves = []
            for _ in range(200):
                halves.append(await trio.open_tcp_stream("127.0.0.1", page.listener.port))
                await halves[-1].send_all(b"GET / HTTP/1.1\r\nhost: x\r\n")
            with trio.fail_after(20):  # far less than a head may take
                assert (await page.ask("GET", TYPES, cookie=cookie)).status == 200
            for one in halves:
                await one.aclose()


async def test_many_silent_connections_do_not_lock_the_browser_out() -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            cookie = await page.sign_in()
            silent = [await trio.open_tcp_stream("127.0.0.1", page.listener.port) for _ in range(80)]
            assert (await page.ask("GET", TYPES, cookie=cookie)).status == 200
            for one in silent:
                await one.aclose()

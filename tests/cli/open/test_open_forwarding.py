"""What the listener of `rewound open` sends to the server, and what of the response gets to the browser."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
import trio

from rewound.client.credentials import Credential
from rewound.client.kubeconfig import Overrides, load_target
from tests.cli.open.opened import PAGE, opened, target_of
from tests.client.fake_server import fake_server
from tests.gateway.api import config_map
from tests.gateway.https import served_securely
from tests.ports import reserve_port
from tests.settling import settled

TYPES = "/apis/rewound.cluster.io/v1/timeline/types"
EVENTS = "/apis/rewound.cluster.io/v1/timeline/events"


async def test_requests_have_the_credentials_of_the_user_and_nothing_of_the_browser() -> None:
    with fake_server(plain=True) as server:
        target = replace(target_of(f"{server.url}/clusters/7"), impersonated_user="bob")
        async with opened(target) as page:
            cookie = await page.sign_in()
            headers = {"authorization": "Bearer evil", "impersonate_user": "root", "x_remote_user": "root"}
            found = await page.ask(
                "GET", f"{TYPES}?a=b%20c", cookie=cookie, user_agent="Browser/1", **headers
            )
            assert found.status == 200
        (sent,) = server.requests
        assert sent.path == f"/clusters/7{TYPES}?a=b%20c"
        assert sent.headers["host"] == server.url.removeprefix("http://")
        assert sent.headers.get_all("authorization") == ["Bearer of-alice"]
        assert sent.headers.get_all("impersonate-user") == ["bob"]
        assert sent.headers.get_all("user-agent") == ["Browser/1"]
        assert not {"cookie", "x-remote-user", "x-forwarded-for", "origin"} & {
            name.lower() for name in sent.headers
        }


async def test_responses_set_nothing_in_the_browser() -> None:
    with fake_server(plain=True) as server:
        set_by_server = {
            "set-cookie": "a=b",
            "strict-transport-security": "max-age=9",
            "access-control-allow-origin": "*",
            "content-security-policy": "default-src *",
            "etag": '"1"',
        }
        server.answers[f"GET {TYPES}"] = (200, {}, set_by_server)
        server.answers["GET /debug/journal/x.js"] = (302, {}, {"location": "https://evil.example/"})
        async with opened(target_of(server.url)) as page:
            cookie = await page.sign_in()
            found = await page.ask("GET", TYPES, cookie=cookie)
            assert found.status == 200 and found.headers["etag"] == '"1"'
            assert not {"set-cookie", "strict-transport-security", "access-control-allow-origin"} & set(
                found.headers
            )
            assert "sandbox" in found.headers["content-security-policy"]
            assert found.headers["x-content-type-options"] == "nosniff"
            led = await page.ask("GET", "/debug/journal/x.js", cookie=cookie)
            assert led.status == 502 and "location" not in led.headers


class _Renewed:
    """A plugin, or an identity provider, that has another token once the server has rejected one."""

    def __init__(self) -> None:
        self.number = 1

    def credential(self) -> Credential:
        return Credential(f"Bearer token-{self.number}")

    def rejected(self, credential: Credential) -> None:
        self.number += 1


async def test_rejected_credentials_are_renewed() -> None:
    with fake_server(plain=True) as server:
        server.answers[f"GET {TYPES}"] = [(401, {}), (200, {"user": "alice"})]
        async with opened(target_of(server.url, _Renewed())) as page:
            cookie = await page.sign_in()
            # Not 401: the page would ask for a token, which is of no use here.
            refused = await page.ask("GET", TYPES, cookie=cookie)
            assert refused.status == 502 and "does not accept your credentials" in refused.text
            assert (await page.ask("GET", TYPES, cookie=cookie)).status == 200
            assert server.tokens() == ["Bearer token-1", "Bearer token-2"]
            assert ["credentials" in page.reported[0], "responds again" in page.reported[1]] == [True, True]


async def test_a_server_that_went_away_is_reported_once() -> None:
    port = reserve_port()
    async with opened(target_of(f"http://127.0.0.1:{port}")) as page:
        cookie = await page.sign_in()
        for _ in range(3):
            failed = await page.ask("GET", TYPES, cookie=cookie)
            assert failed.status == 502
            assert f"cannot reach http://127.0.0.1:{port}" in failed.text
        assert len(page.reported) == 1 and "trying again" in page.reported[0]


@pytest.mark.holds_loop("OpenSSL loads the certificate authorities of the system for the first request")
async def test_a_client_certificate_of_a_kubeconfig_signs_in_over_verified_tls() -> None:
    async with served_securely() as api:
        await api.create("configmaps", config_map("web"))
        target = load_target(Overrides(kubeconfig=api.settings.kubeconfig))
        async with opened(target) as page:
            cookie = await page.sign_in()
            base = f"http://{page.host}"
            async with httpx.AsyncClient(
                base_url=base, headers={"cookie": cookie}, verify=False, timeout=60
            ) as browser:
                assert (await browser.get(TYPES)).json()["user"] == "admin"
                assert "<script" in (await browser.get("/debug/journal/")).text
                newest = (await browser.get(EVENTS)).json()["newest"]["version"]
                # A long poll passes, and ends with the event that it waits for.
                found: list[str] = []

                async def follow() -> None:
                    query = {"from": str(int(newest) + 1), "order": "ascending", "wait": "25"}
                    response = await browser.get(EVENTS, params=query)
                    found.extend(one["name"] for one in response.json()["items"])

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(follow)
                    await settled()
                    await api.create("configmaps", config_map("later"))
                assert found == ["later"]
        stranger = replace(target, authority=None, server=target.server)
        async with opened(stranger) as page:
            failed = await page.ask("GET", TYPES, cookie=await page.sign_in())
            assert failed.status == 502 and "x509" in failed.text


async def test_the_address_alone_leads_a_signed_in_browser_to_the_page() -> None:
    with fake_server(plain=True) as server:
        async with opened(target_of(server.url)) as page:
            assert (await page.ask("GET", "/")).status == 403
            cookie = await page.sign_in()
            for path in ("/", "/debug/journal"):
                led = await page.ask("GET", path, cookie=cookie)
                assert led.status == 303 and led.headers["location"] == PAGE
            assert server.requests == []

"""services/proxy: the port by name or number, and an address in the Endpoints that belongs to a pod."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.certificates.names import address_of, reachable_addresses
from rewound.gateway.settings.settings import ProxySettings
from tests.gateway.api import Api
from tests.gateway.proxy.backends import Call, make_pod, proxying, serving

SERVICES = "/api/v1/namespaces/default/services"
FAR = "203.0.113.7"  # of a documentation range


async def make_service(api: Api, ip: str, port: int, **target: Any) -> None:
    ports = [{"name": "web", "port": 80, "targetPort": 8080}, {"name": "other", "port": 81}]
    await api.create("services", {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    reference = {"kind": "Pod", "namespace": "default", "name": "p", **target}
    subset = {"addresses": [{"ip": ip, "targetRef": reference}], "ports": [{"name": "web", "port": port}]}
    await api.create("endpoints", {"metadata": {"name": "s"}, "subsets": [subset]})


async def hello(call: Call) -> None:
    await call.reply(call.line.encode())


async def test_services_lead_to_their_pods() -> None:
    ip = reachable_addresses("0.0.0.0")[0]
    address = address_of(ip)
    if address is None or address.is_loopback:
        pytest.skip("this machine has no address but loopback, and Endpoints may not have that")
    async with serving(hello, host=ip) as backend, proxying(proxy=ProxySettings()) as api:
        await make_pod(api, ip=ip)
        await make_service(api, ip, backend.port)
        for name in ("s:web", "s:80", "http:s:web"):
            response = await api.ask("GET", f"{SERVICES}/{name}/proxy/x?y")
            assert (response.status, response.text) == (200, "GET /x?y HTTP/1.1")


async def test_services_without_an_address_are_unavailable() -> None:
    async def refused(api: Api, name: str, code: int = 503) -> str:
        return str((await api.ask("GET", f"{SERVICES}/{name}/proxy/")).expect(code)["message"])

    async with proxying() as api:
        assert await refused(api, "s:80", 404) == 'services "s" not found'
        assert await refused(api, "s", 404) == 'services "s" not found'
        await api.create("services", {"metadata": {"name": "bare"}, "spec": {"ports": [{"port": 80}]}})
        for name in ("bare", "bare:", "bare:80", "bare:+080", "bare:web"):
            assert await refused(api, name, 404) == 'services "bare" not found'
        for name in ("bare:-1", "bare:-01"):
            assert await refused(api, name) == 'no service port -1 found for service "bare"'
        await make_pod(api, ip=FAR)
        await make_service(api, FAR, 8080)
        assert await refused(api, "s:82") == 'no service port 82 found for service "s"'
        assert await refused(api, "s") == 'no endpoints available for service "s"'
        assert await refused(api, "s:81") == 'no endpoints available for service "s:81"'
        assert await refused(api, "a:s:b:c", 400) == 'invalid service request "a:s:b:c"'
        (await api.ask("GET", f"{SERVICES}/s:web/proxy/", token="alice-token")).expect(403)


@pytest.mark.parametrize("wrong", [{"name": "q"}, {"namespace": "other"}])
async def test_addresses_that_belong_to_no_pod_are_not_used(wrong: dict[str, str]) -> None:
    async with proxying() as api:
        await make_pod(api, ip=FAR)
        await make_service(api, FAR, 8080, **wrong)
        status = (await api.ask("GET", f"{SERVICES}/s:web/proxy/")).expect(503)
        assert status["message"] == 'no endpoints available for service "s:web"'

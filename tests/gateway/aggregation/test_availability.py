"""The condition Available of an APIService says what is missing, and requests depend on it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.gateway.aggregation.aggregated import (
    API_SERVICES,
    GROUP_VERSION,
    NAME,
    aggregating,
    api_service,
    condition,
    discovering,
    make_service,
    register,
)
from tests.gateway.api import Api
from tests.gateway.outgoing.https_peer import pki
from tests.gateway.proxy.backends import Call, serving

MERGE = {"content-type": "application/merge-patch+json"}
UNUSED = 9  # nothing listens there


async def respond(call: Call) -> None:
    await call.reply(b"{}")


async def reason(api: Api, wanted: str) -> str:
    """The message of the condition once it has this reason."""
    found = await condition(api, lambda one: one["reason"] == wanted)
    assert found["status"] == ("True" if wanted in ("Local", "Passed") else "False")
    return str(found["message"])


async def test_reasons_of_a_service_that_is_not_there_yet() -> None:
    async with aggregating() as api:
        await api.create("apiservices", api_service(443))
        assert await reason(api, "ServiceNotFound") == 'service/hook in "default" is not present'
        assert (await api.ask("GET", GROUP_VERSION)).text == "service unavailable\n"
        service = {"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "api", "port": 8443}]}}
        await api.create("services", service)
        assert (
            await reason(api, "ServicePortError") == 'service/hook in "default" is not listening on port 443'
        )
        patch = {"spec": {"service": {"port": 8443}}}
        (await api.ask("PATCH", f"{API_SERVICES}/{NAME}", patch, headers=MERGE)).expect(200)
        assert await reason(api, "EndpointsNotFound") == 'cannot find endpoints for service/hook in "default"'
        subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "other", "port": 1}]}]
        await api.create("endpoints", {"metadata": {"name": "hook"}, "subsets": subsets})
        missing = 'endpoints for service/hook in "default" have no addresses with port name "api"'
        assert await reason(api, "MissingEndpoints") == missing


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"caBundle": base64.b64encode((pki() / "untrusted-ca.pem").read_bytes()).decode()}, "x509: "),
        ({"caBundle": "bm9uZQ=="}, "unable to load root certificates: "),
    ],
    ids=["another CA", "no CA"],
)
async def test_a_certificate_that_cannot_be_verified(spec: dict[str, Any], message: str) -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await make_service(api)
        await api.create("apiservices", api_service(backend.port, **spec))
        assert message in await reason(api, "FailedDiscoveryCheck")
        assert not backend.calls


async def test_a_certificate_for_another_name_and_one_that_is_not_verified() -> None:
    async with serving(discovering(respond), certificate="server") as backend, aggregating() as api:
        await make_service(api)
        await api.create("apiservices", api_service(backend.port))
        assert "x509: " in await reason(api, "FailedDiscoveryCheck")
        patch = {"spec": {"insecureSkipTLSVerify": True, "caBundle": None}}
        (await api.ask("PATCH", f"{API_SERVICES}/{NAME}", patch, headers=MERGE)).expect(200)
        assert await reason(api, "Passed") == "all checks passed"
        (await api.ask("GET", f"{GROUP_VERSION}/things")).expect(200)


async def test_a_server_without_the_group_version_recovers() -> None:
    found = False

    async def late(call: Call) -> None:
        await call.reply(b"{}", status="200 OK" if found else "404 Not Found")

    async with serving(late, certificate="service") as backend, aggregating() as api:
        await make_service(api)
        await api.create("apiservices", api_service(backend.port))
        url = f"https://localhost:{backend.port}{GROUP_VERSION}"
        text = f"failing or missing response from {url}: bad status from {url}: 404"
        assert await reason(api, "FailedDiscoveryCheck") == text
        found = True
        await reason(api, "Passed")
        assert backend.calls[-1].header("x-remote-user") == "system:kube-aggregator"


async def test_service_without_a_listener_is_unavailable() -> None:
    async with aggregating() as api:
        await make_service(api)
        await api.create("apiservices", api_service(UNUSED))
        text = await reason(api, "FailedDiscoveryCheck")
        assert text.endswith(f"dial tcp localhost:{UNUSED}: connect: connection refused")


async def test_an_api_service_that_becomes_local_is_available() -> None:
    async with aggregating() as api:
        await make_service(api)
        await api.create("apiservices", api_service(UNUSED))
        await reason(api, "FailedDiscoveryCheck")
        patch = {"spec": {"service": None, "caBundle": None}}
        (await api.ask("PATCH", f"{API_SERVICES}/{NAME}", patch, headers=MERGE)).expect(200)
        assert await reason(api, "Local") == "Local APIServices are always available"


async def test_metrics_show_unavailable_api_services() -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        other = api_service(UNUSED, version="v2")
        await api.create("apiservices", other)
        metrics = (await api.ask("GET", "/metrics")).text
        assert f'aggregator_unavailable_apiservice{{name="{NAME}"}} 0' in metrics
        assert 'aggregator_unavailable_apiservice{name="v2.things.example.com"} 1' in metrics

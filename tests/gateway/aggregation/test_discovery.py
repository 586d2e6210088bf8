"""Discovery lists aggregated groups as their servers do, and a dead server never delays it."""

from __future__ import annotations

from tests.gateway.aggregation.aggregated import (
    GROUP,
    GROUP_VERSION,
    RESOURCES,
    aggregating,
    api_service,
    discovering,
    register,
)
from tests.gateway.proxy.backends import Call, serving

AGGREGATED = {"accept": "application/json;g=apidiscovery.cluster.io;v=v2beta1;as=APIGroupDiscoveryList"}


async def respond(call: Call) -> None:
    await call.reply(b"{}")


async def test_an_aggregated_group_is_in_discovery() -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        groups = (await api.ask("GET", "/apis")).expect(200)["groups"]
        assert [one["name"] for one in groups][-1] == GROUP  # the lowest priority
        version = {"groupVersion": f"{GROUP}/v1", "version": "v1"}
        group = (await api.ask("GET", f"/apis/{GROUP}")).expect(200)
        assert (group["versions"], group["preferredVersion"]) == ([version], version)
        assert (await api.ask("GET", GROUP_VERSION)).expect(200) == RESOURCES
        assert GROUP_VERSION in (await api.ask("GET", "/")).expect(200)["paths"]


async def test_aggregated_discovery_has_what_the_server_lists() -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        await api.create("apiservices", api_service(9, version="v2"))
        items = (await api.ask("GET", "/apis", headers=AGGREGATED)).expect(200)["items"]
        [found] = [one for one in items if one["metadata"]["name"] == GROUP]
        kind = {"group": "", "version": "", "kind": "Thing"}
        thing = {
            "resource": "things",
            "responseKind": kind,
            "scope": "Namespaced",
            "singularResource": "thing",
            "verbs": ["get", "list"],
            "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
        }
        by_version = {one["version"]: one for one in found["versions"]}
        assert by_version["v1"] == {"version": "v1", "resources": [thing], "freshness": "Current"}
        assert by_version["v2"] == {"version": "v2", "resources": [], "freshness": "Stale"}

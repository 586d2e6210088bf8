"""Deleting a namespace deletes its objects on aggregated servers, and waits while one of these does not respond."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from tests.gateway.account_tokens import eventually
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
from tests.gateway.api import Api, ApiResponse
from tests.gateway.proxy.backends import Call, serving

DOOMED = "/api/v1/namespaces/doomed"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.cluster.io;v=v1,application/json"
ACCOUNT = "system:serviceaccount:cluster-system:namespace-controller"


class Things:
    """An API server with things in the namespace `doomed`; those with finalizers stay when they are deleted."""

    def __init__(self, *verbs: str, **finalizers: list[str]) -> None:
        self.verbs = ["list", "delete", *verbs]
        self.finalizers = finalizers
        self.deletes: list[tuple[str, str]] = []  # path and user

    async def respond(self, call: Call) -> None:
        method, target, _ = call.line.split()
        url = urlsplit(target)
        if url.path.startswith("/openapi/"):
            return await call.reply(b"", "Connection: close", status="404 Not Found")
        parts = url.path.removeprefix(f"{GROUP_VERSION}/").split("/")
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if method == "DELETE":
            assert parse_qs(url.query) == {"propagationPolicy": ["Background"]}
            self.deletes.append((url.path, call.header("x-remote-user") or ""))
            names = parts[3:] or list(self.finalizers)
            self.finalizers = {k: v for k, v in self.finalizers.items() if v or k not in names}
        elif not url.path.removeprefix(GROUP_VERSION):
            things = {"name": "things", "namespaced": True, "kind": "Thing", "verbs": self.verbs}
            others = [{**things, "name": "all", "namespaced": False}, {**things, "name": "things/status"}]
            body = {"kind": "APIResourceList", "resources": [things, *others]}
        else:
            assert (method, parts) == ("GET", ["namespaces", "doomed", "things"]), call.line
            assert call.header("accept") == METADATA
            items = [{"metadata": {"name": k, "finalizers": v}} for k, v in self.finalizers.items()]
            body = {"kind": "ThingList", "metadata": {}, "items": items}
        return await call.reply(orjson.dumps(body), "Content-Type: application/json", "Connection: close")


def conditions(response: ApiResponse) -> dict[str, tuple[str, str, str]]:
    found = response.document.get("status", {}).get("conditions") or ()
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


async def reach(api: Api, type_: str, expected: tuple[str, str, str]) -> None:
    await eventually(api, DOOMED, lambda response: conditions(response).get(type_) == expected)


async def doom(api: Api) -> None:
    await api.create("namespaces", {"metadata": {"name": "doomed"}})
    (await api.ask("DELETE", DOOMED)).expect(200)


@pytest.mark.parametrize("whole", [True, False])
async def test_objects_of_aggregated_servers_are_deleted(whole: bool) -> None:
    things = Things(*(["deletecollection"] if whole else []), a=[], b=[])
    async with serving(things.respond, certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        await doom(api)
        await eventually(api, DOOMED, lambda response: response.status == 404)
        path = f"{GROUP_VERSION}/namespaces/doomed/things"
        expected = [path] if whole else [f"{path}/a", f"{path}/b"]
        assert things.deletes == [(one, ACCOUNT) for one in expected]
        assert not things.finalizers


async def test_namespace_waits_for_finalizers_on_aggregated_servers() -> None:
    things = Things("deletecollection", a=[], b=["example.com/keep"])
    async with serving(things.respond, certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        await doom(api)
        text = "Some resources are remaining: things.things.example.com has 1 resource instances"
        await reach(api, "NamespaceContentRemaining", ("True", "SomeResourcesRemain", text))
        text = (
            "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances"
        )
        await reach(api, "NamespaceFinalizersRemaining", ("True", "SomeFinalizersRemain", text))
        things.finalizers = {}
        await eventually(api, DOOMED, lambda response: response.status == 404)


async def test_namespace_waits_while_a_server_is_unavailable() -> None:
    async def respond(call: Call) -> None:
        raise AssertionError(call.line)

    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await make_service(api)
        # Nothing listens on port 1.
        await api.create("apiservices", api_service(1))
        await condition(api, lambda one: one["status"] == "False")
        await api.create("namespaces", {"metadata": {"name": "doomed"}})
        await api.ask("POST", f"{DOOMED}/configmaps", {"metadata": {"name": "a"}})
        (await api.ask("DELETE", DOOMED)).expect(200)
        text = (
            "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
            "things.example.com/v1: the server is currently unable to handle the request"
        )
        await reach(api, "NamespaceDeletionDiscoveryFailure", ("True", "DiscoveryFailed", text))
        (await api.ask("GET", f"{DOOMED}/configmaps/a")).expect(404)  # what can be deleted is
        (await api.ask("DELETE", f"{API_SERVICES}/{NAME}")).expect(200)
        await eventually(api, DOOMED, lambda response: response.status == 404)
        assert not [one for one in backend.calls if "namespaces" in one.line]

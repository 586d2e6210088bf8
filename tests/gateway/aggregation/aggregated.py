"""A server behind an APIService, in the test's own event loop, and a server that forwards to it.

    async with serving(respond, certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        await api.ask("GET", f"{GROUP_VERSION}/things")

The certificate `service` is valid for hook.default.svc; the Service `hook` leads to loopback by its external name.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson

from rewound.gateway.settings.settings import ProxySettings
from tests.actors.certificates.shared_folder import own_certificates
from tests.gateway.account_tokens import eventually
from tests.gateway.api import Api, ApiResponse, served
from tests.gateway.outgoing.https_peer import pki
from tests.gateway.proxy.backends import Backend, Call, Respond

GROUP, VERSION = "things.example.com", "v1"
GROUP_VERSION = f"/apis/{GROUP}/{VERSION}"
NAME = f"{VERSION}.{GROUP}"
API_SERVICES = "/apis/apiregistration.cluster.io/v1/apiservices"
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {
            "name": "things",
            "singularName": "thing",
            "namespaced": True,
            "kind": "Thing",
            "verbs": ["get", "list"],
        },
        {"name": "things/status", "singularName": "", "namespaced": True, "kind": "Thing", "verbs": ["get"]},
    ],
}


def discovering(respond: Respond) -> Respond:
    """Responds to the probe itself, and lets `respond` respond to everything else.

    It sends Connection: close with every response: a POST on a pooled connection would fail if that was closed
    meanwhile.
    """

    async def serve(call: Call) -> None:
        if call.line == f"GET {GROUP_VERSION} HTTP/1.1":
            await call.reply(orjson.dumps(RESOURCES), "Content-Type: application/json", "Connection: close")
        elif call.line.startswith("GET /openapi/"):
            await call.reply(b"", "Connection: close", status="404 Not Found")
        else:
            await respond(call)

    return serve


def forwarded(backend: Backend) -> list[Call]:
    """The requests received, without the server's own ones for discovery and OpenAPI documents."""
    return [one for one in backend.calls if one.line.split()[1].startswith(f"{GROUP_VERSION}/")]


@asynccontextmanager
async def aggregating(**changed: Any) -> AsyncIterator[Api]:
    """A server that forwards to loopback and presents a certificate that the backends of tests verify."""
    proxy = ProxySettings(
        allow_local_proxy_targets=True,
        proxy_client_cert_file=pki() / "client.pem",
        proxy_client_key_file=pki() / "client.key",
    )
    async with served(**{"proxy": proxy, **changed}) as api:
        if not api.settings.pki.exists():  # otherwise a child process creates them when controllers need them
            shutil.copytree(own_certificates(api.settings.dialect).folder, api.settings.pki)
        yield api


def api_service(port: int, *, group: str = GROUP, version: str = VERSION, **spec: Any) -> dict[str, Any]:
    bundle = base64.b64encode((pki() / "ca.pem").read_bytes()).decode()
    return {
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "service": {"namespace": "default", "name": "hook", "port": port},
            "caBundle": bundle,
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            **spec,
        },
    }


async def make_service(api: Api) -> None:
    spec = {"type": "ExternalName", "externalName": "localhost"}
    await api.create("services", {"metadata": {"name": "hook"}, "spec": spec})


async def register(api: Api, port: int, **spec: Any) -> None:
    """Create Service and APIService, and wait until it is available."""
    await make_service(api)
    made = await api.create("apiservices", api_service(port, **spec))
    await condition(api, lambda one: one["status"] == "True", made["metadata"]["name"])


async def condition(api: Api, holds: Callable[[dict[str, Any]], bool], name: str = NAME) -> dict[str, Any]:
    """Wait until the condition Available has this status, and return it."""
    found: dict[str, Any] = {}

    def reached(response: ApiResponse) -> bool:
        nonlocal found
        conditions = response.document.get("status", {}).get("conditions") or []
        found = next((one for one in conditions if one["type"] == "Available"), {})
        return bool(found) and holds(found)

    await eventually(api, f"{API_SERVICES}/{name}", reached)
    return found

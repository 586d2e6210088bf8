"""The CA certificate of a server with a secure port is in a ConfigMap of every namespace."""

from __future__ import annotations

import pytest

from rewound.actors.names import NAMES
from rewound.gateway.settings.settings import ControllerSettings
from tests.gateway.account_tokens import eventually
from tests.gateway.api import ApiResponse, names, served
from tests.gateway.https import certificates, served_securely


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_every_namespace_has_the_certificate_and_gets_it_back(dialect: str) -> None:
    authority = (certificates(dialect) / "ca.crt").read_text()
    name = NAMES[dialect].root_certificate

    def is_published(response: ApiResponse) -> bool:
        return response.status == 200 and response.document["data"] == {"ca.crt": authority}

    chosen = ControllerSettings(controllers=("default", "root-ca-cert-publisher"))
    async with served_securely(dialect=dialect, controllers=chosen) as api:
        await api.create("namespaces", {"metadata": {"name": "n"}})
        for namespace in ("default", "n", NAMES[dialect].system_namespace):
            await eventually(api, api.path("configmaps", namespace, name), is_published)
        path = api.path("configmaps", "n", name)
        changed = b'{"data": {"ca.crt": "another", "more": "x"}}'
        headers = {"content-type": "application/merge-patch+json"}
        (await api.ask("PATCH", path, changed, headers=headers)).expect(200)
        await eventually(api, path, is_published)
        before = await api.get("configmaps", name, "n")
        await api.delete("configmaps", name, "n")
        await eventually(
            api,
            path,
            lambda response: (
                is_published(response) and response.document["metadata"]["uid"] != before["metadata"]["uid"]
            ),
        )


async def test_server_without_secure_port_publishes_nothing() -> None:
    async with served() as api:
        assert names(await api.list("configmaps", None)) == []


async def test_cluster_dialect_publishes_nothing_by_default() -> None:
    async with served_securely() as api:
        await api.create("namespaces", {"metadata": {"name": "n"}})
        # Only the ConfigMap for aggregated servers exists, in one namespace.
        assert names(await api.list("configmaps", None)) == ["extension-apiserver-authentication"]

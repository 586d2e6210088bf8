"""admin.kubeconfig: the server's address and CA, and a client certificate of system:masters."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.gateway.api import config_map
from tests.gateway.connections.http_server import authority
from tests.gateway.https import Kubeconfig, secure_client, served_securely, trusting

PATH = "/api/v1/namespaces/default/configmaps"


async def test_client_needs_only_the_kubeconfig(tmp_path: Path) -> None:
    async with served_securely() as api:
        known = Kubeconfig(api.settings.kubeconfig)
        assert api.addresses.secure is not None
        assert known.server == f"https://127.0.0.1:{api.addresses.secure[1]}"
        async with httpx.AsyncClient(base_url=known.server, verify=known.context(tmp_path)) as client:
            made = await client.post(PATH, json=config_map("a", text="x"))
            assert made.status_code == 201
            assert (await client.get(f"{PATH}/a")).json() == made.json()
            assert (await client.get("/metrics")).status_code == 200


async def test_kubeconfig_works_over_http2(tmp_path: Path) -> None:
    async with served_securely() as api:
        context = Kubeconfig(api.settings.kubeconfig).context(tmp_path)
        async with secure_client(api, context, http2=True) as client:
            made = await client.post(PATH, json=config_map("a", text="x" * 200_000))
            assert (made.status_code, made.http_version) == (201, "HTTP/2")
            found = await client.get(PATH)
            assert found.json()["items"][0]["data"] == {"text": "x" * 200_000}
            assert (await client.get(f"{PATH}/missing")).json()["reason"] == "NotFound"


async def test_kubeconfig_follows_the_port(tmp_path: Path) -> None:
    async with served_securely() as api:
        await api.restart()
        known = Kubeconfig(api.settings.kubeconfig)
        async with httpx.AsyncClient(base_url=known.server, verify=known.context(tmp_path)) as client:
            assert (await client.get("/api/v1/namespaces")).status_code == 200


async def test_client_without_a_certificate_is_anonymous() -> None:
    async with served_securely() as api, secure_client(api, trusting(api.settings.pki / "ca.crt")) as client:
        refused = await client.get("/api/v1/namespaces")
        assert refused.status_code == 403
        assert 'User "system:anonymous"' in refused.json()["message"]
        assert (await client.get("/livez")).status_code == 200


async def test_client_with_another_ca_does_not_trust_the_server() -> None:
    async with served_securely() as api, secure_client(api, trusting(authority().ca)) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("/livez")


async def test_plain_http_on_the_secure_port_gets_400() -> None:
    async with served_securely() as api:
        assert api.addresses.secure is not None
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{api.addresses.secure[1]}", verify=False
        ) as client:
            answer = await client.get("/livez")
            assert answer.status_code == 400
            assert answer.json()["message"] == "client sent an HTTP request to an HTTPS server"

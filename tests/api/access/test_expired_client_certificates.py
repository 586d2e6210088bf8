"""An expired client certificate is refused, also on connections and TLS sessions that were opened before."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from tests.api.access.seen_users import PATH, served_to_all
from tests.api.access.test_proxy_authentication import served_behind_proxy
from tests.gateway.api import ADMIN, Api
from tests.gateway.https import secure_client, trusting
from tests.issuers import issuer

BEARER = {"Authorization": f"Bearer {ADMIN}"}


def context_with(api: Api, certificate: Path) -> ssl.SSLContext:
    context = trusting(api.settings.pki / "ca.crt")
    context.load_cert_chain(certificate)
    return context


def expire(api: Api, certificate: Path) -> None:
    """Set the server's clock to the moment at which the certificate expires."""
    end = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    api.clock.advance(end.timestamp() - api.clock.now() / 1_000_000)
    assert datetime.fromtimestamp(api.clock.now() / 1_000_000, UTC) >= end


@pytest.mark.parametrize("http2", [False, True])
async def test_open_connection_does_not_outlive_the_certificate(http2: bool) -> None:
    async with served_to_all(client_ca_file=issuer("clients").file) as (api, seen):
        certificate = issuer("clients").leaf("carol")
        async with secure_client(api, context_with(api, certificate), http2=http2) as client:
            assert (await client.get(PATH)).status_code == 200
            assert seen.last().name == "carol"
            expire(api, certificate)
            refused = await client.get(PATH)
            assert (refused.status_code, refused.json()["message"]) == (401, "Unauthorized")
            assert (await client.get("/version")).status_code == 401, "nor is it anonymous"
            assert (await client.get(PATH, headers=BEARER)).status_code == 200
            assert seen.last().name == "admin"


async def test_proxy_does_not_outlive_its_certificate() -> None:
    async with served_behind_proxy() as (api, seen):
        certificate = issuer("proxies").leaf("front")
        async with secure_client(api, context_with(api, certificate)) as client:
            headers = {"X-Remote-User": "alice"}
            assert (await client.get(PATH, headers=headers)).status_code == 200
            assert seen.last().name == "alice"
            expire(api, certificate)
            assert (await client.get(PATH, headers=headers)).status_code == 401
            assert (await client.get(PATH, headers={**headers, **BEARER})).status_code == 200
            assert seen.last().name == "admin"


async def test_connection_without_certificate_does_not_expire() -> None:
    async with served_to_all(client_ca_file=issuer("clients").file) as (api, seen):
        client: httpx.AsyncClient
        async with secure_client(api, trusting(api.settings.pki / "ca.crt")) as client:
            api.clock.advance(400 * 365 * 86400)
            assert (await client.get(PATH)).status_code == 200
            assert seen.last().name == "system:anonymous"

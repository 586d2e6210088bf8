"""--client-ca-file and --tls-cert-file: clients of another CA, and a serving certificate of the operator."""

from __future__ import annotations

import ssl

import httpx
import pytest

from tests.gateway.connections.http_server import authority
from tests.gateway.https import Kubeconfig, secure_client, served_securely, trusting
from tests.issuers import CLIENT, SERVER, bundle, issuer


def as_their_client(api) -> ssl.SSLContext:
    context = trusting(api.settings.pki / "ca.crt")
    context.load_cert_chain(authority().client_certificate, authority().client_key)
    return context


async def test_client_of_the_given_ca_is_authenticated_by_common_name() -> None:
    async with (
        served_securely(client_ca_file=authority().ca) as api,
        secure_client(api, as_their_client(api)) as client,
    ):
        refused = await client.get("/api/v1/namespaces")
        assert refused.status_code == 403
        assert 'User "client" cannot list' in refused.json()["message"]
        assert (await client.get("/api")).status_code == 200


async def test_own_admin_certificate_still_works_with_a_client_ca_file(tmp_path) -> None:
    async with served_securely(client_ca_file=authority().ca) as api:
        context = Kubeconfig(api.settings.kubeconfig).context(tmp_path)
        async with secure_client(api, context) as client:
            assert (await client.get("/api/v1/namespaces")).status_code == 200


async def test_client_of_an_unknown_ca_fails_the_handshake() -> None:
    async with served_securely() as api:
        async with secure_client(api, as_their_client(api)) as client:
            with pytest.raises(httpx.TransportError):
                await client.get("/livez")
        assert (await api.ask("GET", "/livez")).status == 200


async def test_certificate_takes_precedence_over_a_token() -> None:
    async with served_securely(client_ca_file=authority().ca) as api:
        headers = {"authorization": "Bearer admin-token"}
        async with secure_client(api, as_their_client(api), headers=headers) as client:
            assert 'User "client"' in (await client.get("/api/v1/namespaces")).json()["message"]


async def test_given_serving_certificate_is_used(tmp_path) -> None:
    theirs = authority()
    async with served_securely(tls_cert_file=theirs.certificate, tls_private_key_file=theirs.key) as api:
        async with secure_client(api, trusting(theirs.ca)) as client:
            assert (await client.get("/livez")).text == "ok"
        async with secure_client(api, trusting(api.settings.pki / "ca.crt")) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("/livez")
        assert Kubeconfig(api.settings.kubeconfig).authority == theirs.certificate.read_bytes()


async def test_own_admin_certificate_works_with_a_given_serving_certificate(tmp_path) -> None:
    theirs = authority()
    async with served_securely(tls_cert_file=theirs.certificate, tls_private_key_file=theirs.key) as api:
        context = trusting(theirs.ca)
        context.load_cert_chain(api.settings.pki / "admin.crt", api.settings.pki / "admin.key")
        async with secure_client(api, context) as client:
            assert (await client.get("/api/v1/namespaces")).status_code == 200


async def test_client_ca_file_may_hold_several_cas() -> None:
    first, second = issuer("clients"), issuer("other clients")
    intermediate = second.intermediate("department")
    async with served_securely(client_ca_file=bundle(first, second)) as api:
        for certificate, name in (
            (first.leaf("alice"), "alice"),
            (second.leaf("bob"), "bob"),
            (intermediate.leaf("carol", intermediates=(intermediate,)), "carol"),
        ):
            context = trusting(api.settings.pki / "ca.crt")
            context.load_cert_chain(certificate)
            async with secure_client(api, context) as client:
                message = (await client.get("/api/v1/namespaces")).json()["message"]
                assert f'User "{name}" cannot list' in message


async def test_certificate_must_be_for_client_authentication() -> None:
    """A certificate without extended key usages is valid for every use."""
    async with served_securely(client_ca_file=issuer("clients").file) as api:
        for usages, accepted in (
            ((CLIENT,), True),
            ((SERVER, CLIENT), True),
            (None, True),
            ((SERVER,), False),
        ):
            context = trusting(api.settings.pki / "ca.crt")
            context.load_cert_chain(issuer("clients").leaf("alice", usages=usages))
            async with secure_client(api, context) as client:
                if accepted:
                    assert (await client.get("/api")).status_code == 200
                else:
                    with pytest.raises(httpx.TransportError):
                        await client.get("/api")

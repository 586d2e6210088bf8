"""A certificate from request to use: approved, signed with the data folder's CA, and accepted over TLS."""

from __future__ import annotations

import base64
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from cryptography import x509

from rewound.actors.names import NAMES
from rewound.server.extensions import Extensions
from tests.actors.certificates.making_requests import NODE, Wanted, key_pem
from tests.actors.certificates.shared_folder import own_certificates
from tests.gateway.api import ADMIN, ALICE, Api
from tests.gateway.granting import Grants
from tests.gateway.https import secure_client, served_securely, trusting
from tests.gateway.watch.watching import watching

MERGE = {"content-type": "application/merge-patch+json"}
CLIENT = ["digital signature", "key encipherment", "client auth"]
JOINING = Grants(
    ("alice", "create", "certificatesigningrequests", ""),
    ("alice", "create", "certificatesigningrequests", "any"),
    ("alice", "create", "certificatesigningrequests/nodeclient", ""),
)


def use_real_time(api: Api) -> None:
    """TLS compares the validity of certificates with the real time."""
    api.clock.advance(time.time() - api.clock.now() / 1_000_000)


async def create(api: Api, signer: str, wanted: Wanted, token: str = ADMIN) -> None:
    spec = {"request": wanted.encoded(), "signerName": signer, "usages": CLIENT}
    path = api.path("certificatesigningrequests")
    (await api.ask("POST", path, {"metadata": {"name": "r"}, "spec": spec}, token=token)).expect(201)


async def approve(api: Api) -> None:
    condition = {"type": "Approved", "status": "True", "reason": "Because", "message": "by hand"}
    path = api.path("certificatesigningrequests", None, "r") + "/approval"
    (await api.ask("PATCH", path, {"status": {"conditions": [condition]}}, headers=MERGE)).expect(200)


async def signed(api: Api) -> dict[str, Any]:
    """Wait until the request has a certificate, and return it."""
    with trio.fail_after(60):
        async with watching(api, api.path("certificatesigningrequests")) as watch:
            while True:
                (event,) = await watch.take(1)
                request: dict[str, Any] = event["object"]
                if request["status"].get("certificate"):
                    return request


def client_context(request: dict[str, Any], folder: Path) -> ssl.SSLContext:
    pair = folder / "pair.pem"
    pair.write_bytes(base64.b64decode(request["status"]["certificate"]) + key_pem())
    context = trusting(own_certificates("cluster").authority)
    context.load_cert_chain(pair)
    return context


async def test_approved_client_certificate_signs_in_over_tls(tmp_path: Path) -> None:
    async with served_securely() as api:
        use_real_time(api)
        signer = NAMES["cluster"].client_signer
        await create(api, signer, Wanted((("O", "system:masters"), ("CN", "carol"))))
        await approve(api)
        context = client_context(await signed(api), tmp_path)
        async with secure_client(api, context) as client:
            review = {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}}
            path = "/apis/authorization.cluster.io/v1/selfsubjectaccessreviews"
            response = await client.post(path, json=review)
            assert response.status_code == 201 and response.json()["status"]["allowed"] is True


async def test_node_joins_without_an_approver(tmp_path: Path) -> None:
    async with served_securely(extensions=Extensions(authorizers=[JOINING])) as api:
        use_real_time(api)
        await create(api, NAMES["cluster"].node_client_signer, Wanted(NODE), ALICE)
        request = await signed(api)
        (condition,) = request["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("Approved", "AutoApproved")
        assert condition["lastUpdateTime"] and condition["lastTransitionTime"]
        async with secure_client(api, client_context(request, tmp_path)) as client:
            response = await client.get("/api/v1/configmaps")
            assert (
                response.status_code == 403 and 'User "system:node:n1" cannot' in response.json()["message"]
            )


async def test_signers_of_the_kubernetes_dialect() -> None:
    async with served_securely(dialect="kubernetes") as api:
        await create(api, "kubernetes.io/kube-apiserver-client", Wanted((("CN", "carol"),)))
        await approve(api)
        pem = base64.b64decode((await signed(api))["status"]["certificate"])
        authority = x509.load_pem_x509_certificate(own_certificates("kubernetes").authority.read_bytes())
        x509.load_pem_x509_certificate(pem).verify_directly_issued_by(authority)


@pytest.mark.parametrize("names", [[x509.DNSName("n1")], [x509.UniformResourceIdentifier("spiffe://a/b")]])
async def test_node_client_request_with_names_is_neither_approved_nor_signed(
    names: list[x509.GeneralName],
) -> None:
    """When a second, valid request is signed, the controllers have seen the first one too."""
    async with served_securely(extensions=Extensions(authorizers=[JOINING])) as api:
        path, signer = api.path("certificatesigningrequests"), NAMES["cluster"].node_client_signer
        spec = {"request": Wanted(NODE, names).encoded(), "signerName": signer, "usages": CLIENT}
        (await api.ask("POST", path, {"metadata": {"name": "bad"}, "spec": spec}, token=ALICE)).expect(201)
        await create(api, signer, Wanted(NODE), ALICE)
        await signed(api)
        assert (await api.ask("GET", f"{path}/bad")).expect(200)["status"] == {}

"""Who may approve, deny and sign: the plugins CertificateApproval and CertificateSigning."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from rewound.server.extensions import Extensions
from tests.actors.certificates.making_requests import Wanted
from tests.actors.certificates.shared_folder import own_certificates
from tests.gateway.api import ALICE, Api, ApiResponse, served
from tests.gateway.granting import Grants

PATH = "/apis/certificates.cluster.io/v1/certificatesigningrequests"
MERGE = {"content-type": "application/merge-patch+json"}
MAY_WRITE = [
    ("alice", "create", "certificatesigningrequests", ""),
    ("alice", "create", "certificatesigningrequests", "any"),
    ("alice", "patch", "certificatesigningrequests/approval", "any"),
    ("alice", "update", "certificatesigningrequests/approval", "any"),
    ("alice", "patch", "certificatesigningrequests/status", "any"),
]
CERTIFICATE = base64.b64encode(own_certificates("cluster").authority.read_bytes()).decode()


def condition(kind: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": "Because", "message": "by hand"}


async def create(api: Api, signer: str = "example.com/one", token: str = ALICE) -> dict[str, Any]:
    spec = {
        "request": Wanted((("CN", "alice"),)).encoded(),
        "signerName": signer,
        "usages": ["digital signature", "key encipherment", "client auth"],
    }
    body = {"metadata": {"name": "r"}, "spec": spec}
    return (await api.ask("POST", PATH, body, token=token)).expect(201)


async def write(api: Api, subresource: str, **status: Any) -> ApiResponse:
    path, body = f"{PATH}/r/{subresource}", {"status": status}
    return await api.ask("PATCH", path, body, token=ALICE, headers=MERGE)


def forbidden(verb: str, signer: str = "example.com/one") -> str:
    return (
        'certificatesigningrequests.certificates.cluster.io "r" is forbidden: '
        f'user not permitted to {verb} requests with signerName "{signer}"'
    )


async def test_one_cannot_approve_ones_own_request_without_the_right() -> None:
    """Neither alone nor together with a denial, nor by an update that sends no condition."""
    async with served(extensions=Extensions(authorizers=[Grants(*MAY_WRITE)])) as api:
        await create(api, "cluster.io/api-server-client")
        message = forbidden("approve", "cluster.io/api-server-client")
        for conditions in ([condition("Approved")], [], [condition("Failed")]):
            refused = (await write(api, "approval", conditions=conditions)).expect(403)
            assert refused["message"] == message
        both = await write(api, "approval", conditions=[condition("Denied"), condition("Approved")])
        assert both.status in (403, 422)
        put = (await api.ask("GET", f"{PATH}/r")).expect(200)
        put["status"]["conditions"] = [condition("Approved")]
        assert (await api.ask("PUT", f"{PATH}/r/approval", put, token=ALICE)).expect(403)[
            "message"
        ] == message
        assert (await api.ask("GET", f"{PATH}/r")).expect(200)["status"] == {}


@pytest.mark.parametrize("dry_run", [{}, {"dryRun": "All"}])
@pytest.mark.parametrize(
    "kind", ["merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml"]
)
async def test_no_kind_of_patch_approves_without_the_right(kind: str, dry_run: dict[str, str]) -> None:
    async with served(extensions=Extensions(authorizers=[Grants(*MAY_WRITE)])) as api:
        await create(api)
        status = {"conditions": [condition("Approved")]}
        body: Any = {
            "apiVersion": "certificates.cluster.io/v1",
            "kind": "CertificateSigningRequest",
            "status": status,
        }
        if kind.startswith("json"):
            body = [{"op": "add", "path": "/status/conditions", "value": status["conditions"]}]
        query = {"fieldManager": "m", "force": "true", **dry_run} if kind.startswith("apply") else dry_run
        refused = await api.ask(
            "PATCH",
            f"{PATH}/r/approval",
            orjson.dumps(body),
            token=ALICE,
            headers={"content-type": f"application/{kind}"},
            **query,
        )
        assert refused.expect(403)["message"] == forbidden("approve")
        assert (await api.ask("GET", f"{PATH}/r")).expect(200)["status"] == {}


@pytest.mark.parametrize("name", ["example.com/one", "example.com/*"])
async def test_right_names_the_signer_or_its_domain(name: str) -> None:
    grants = Grants(*MAY_WRITE, ("alice", "approve", "signers", name))
    async with served(extensions=Extensions(authorizers=[grants])) as api:
        await create(api)
        approved = (await write(api, "approval", conditions=[condition("Approved")])).expect(200)
        assert [one["type"] for one in approved["status"]["conditions"]] == ["Approved"]


@pytest.mark.parametrize("name", ["example.com/two", "example.org/*", "*", "com/*", "example.com"])
async def test_right_on_another_signer_is_not_enough(name: str) -> None:
    grants = Grants(*MAY_WRITE, ("alice", "approve", "signers", name), ("alice", "sign", "signers", name))
    async with served(extensions=Extensions(authorizers=[grants])) as api:
        await create(api)
        refused = (await write(api, "approval", conditions=[condition("Approved")])).expect(403)
        assert refused["message"] == forbidden("approve")
        assert (await write(api, "status", certificate=CERTIFICATE)).expect(403)["message"] == forbidden(
            "sign"
        )


async def test_denial_needs_only_the_right_to_write_approval() -> None:
    async with served(extensions=Extensions(authorizers=[Grants(*MAY_WRITE)])) as api:
        await create(api)
        denied = (await write(api, "approval", conditions=[condition("Denied")])).expect(200)
        assert [one["type"] for one in denied["status"]["conditions"]] == ["Denied"]
        more = [*denied["status"]["conditions"], condition("Other")]
        assert (await write(api, "approval", conditions=more)).expect(403)["message"] == forbidden("approve")


async def test_certificates_and_conditions_need_the_right_to_sign() -> None:
    grants = Grants(*MAY_WRITE, ("alice", "approve", "signers", "example.com/one"))
    async with served(extensions=Extensions(authorizers=[grants])) as api:
        await create(api)
        for status in ({"certificate": CERTIFICATE}, {"conditions": [condition("Failed")]}):
            assert (await write(api, "status", **status)).expect(403)["message"] == forbidden("sign")
        (await write(api, "status")).expect(200)  # changes nothing
        grants.rights.add(("alice", "sign", "signers", "example.com/*"))
        signed = (await write(api, "status", certificate=CERTIFICATE)).expect(200)
        assert signed["status"]["certificate"] == CERTIFICATE


async def test_certificate_cannot_be_smuggled_in_with_an_approval() -> None:
    grants = Grants(*MAY_WRITE, ("alice", "approve", "signers", "example.com/one"))
    async with served(extensions=Extensions(authorizers=[grants])) as api:
        await create(api)
        both = {"conditions": [condition("Approved")], "certificate": CERTIFICATE}
        assert "certificate" not in (await write(api, "approval", **both)).expect(200)["status"]


async def test_approval_cannot_change_the_signer() -> None:
    """The right is checked for the stored signer, not for the one in the request."""
    grants = Grants(*MAY_WRITE, ("alice", "approve", "signers", "example.com/two"))
    async with served(extensions=Extensions(authorizers=[grants])) as api:
        stored = await create(api)
        stored["spec"]["signerName"] = "example.com/two"
        stored["status"] = {"conditions": [condition("Approved")]}
        refused = (await api.ask("PUT", f"{PATH}/r/approval", stored, token=ALICE)).expect(403)
        assert refused["message"] == forbidden("approve")


async def test_plugins_can_be_disabled() -> None:
    grants = Extensions(authorizers=[Grants(*MAY_WRITE)])
    disabled = "CertificateApproval,CertificateSigning"
    async with served(extensions=grants, disable_admission_plugins=disabled) as api:
        await create(api)
        (await write(api, "approval", conditions=[condition("Approved")])).expect(200)
        (await write(api, "status", certificate=CERTIFICATE)).expect(200)

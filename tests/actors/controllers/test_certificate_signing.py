"""The signing controller issues certificates for approved requests that their signer accepts, and for no others."""

from __future__ import annotations

import base64
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from rewound.actors.certificates.pki import CertificateError, Certificates
from rewound.actors.certificates.signing import Authorities, AuthorityFiles
from rewound.actors.controllers.certificates import CertificateSigning
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.names import CLUSTER
from rewound.actors.profile import Rules
from tests.actors.certificates.making_requests import Wanted, key
from tests.actors.certificates.shared_folder import own_certificates
from tests.actors.controllers.control_plane import START, ControlPlane, open_control_plane
from tests.actors.controllers.signing_requests import (
    APPROVED,
    CLIENT,
    DENIED,
    FAILED,
    SERVING,
    conditions_of,
    controller_context,
    create_request,
    request,
)

DNS = x509.DNSName("n1.example.com")


async def sign(cluster: ControlPlane, **changed: Any) -> x509.Certificate | None:
    await CertificateSigning(controller_context(cluster, **changed)).reconcile("r")
    encoded = request(cluster)["status"].get("certificate")
    return x509.load_pem_x509_certificate(base64.b64decode(encoded)) if encoded else None


@pytest.mark.parametrize(
    "fitting",
    [
        {},
        {"signer": CLUSTER.client_signer, "usages": ["client auth"]},
        {"signer": CLUSTER.client_signer, "wanted": Wanted((("O", "system:masters"), ("CN", "root")), [DNS])},
        {"signer": CLUSTER.serving_signer, "usages": SERVING, "wanted": Wanted(names=[DNS])},
    ],
    ids=str,
)
async def test_approved_request_gets_a_certificate(tmp_path: Path, fitting: dict[str, Any]) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=[APPROVED], **fitting)
        certificate = await sign(cluster)
        assert certificate is not None and certificate.public_key() == key().public_key()
        authority = x509.load_pem_x509_certificate(own_certificates("cluster").authority.read_bytes())
        certificate.verify_directly_issued_by(authority)
        assert conditions_of(cluster) == [APPROVED]


@pytest.mark.parametrize(
    "unfit",
    [
        {"signer": CLUSTER.client_signer, "usages": ["digital signature"]},
        {"signer": CLUSTER.client_signer, "usages": [*CLIENT, "server auth"]},
        {"usages": CLIENT[1:]},
        {"wanted": Wanted(names=[DNS])},
        {"wanted": Wanted((("O", "system:masters"), ("CN", "system:node:n1")))},
        {"wanted": Wanted((("O", "system:nodes"), ("CN", "root")))},
        {"signer": CLUSTER.serving_signer, "usages": SERVING},
        {"signer": CLUSTER.serving_signer, "usages": CLIENT, "wanted": Wanted(names=[DNS])},
        {
            "signer": CLUSTER.serving_signer,
            "usages": SERVING,
            "wanted": Wanted(names=[DNS, x509.UniformResourceIdentifier("spiffe://a/b")]),
        },
        {
            "signer": CLUSTER.serving_signer,
            "usages": SERVING,
            "wanted": Wanted(names=[DNS, x509.RFC822Name("a@example.com")]),
        },
    ],
    ids=str,
)
async def test_unfit_request_gets_one_line_in_the_log_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unfit: dict[str, Any]
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=[APPROVED], **unfit)
        before = request(cluster)
        controller = CertificateSigning(controller_context(cluster))
        with caplog.at_level(logging.INFO):
            await controller.reconcile("r")
            await controller.reconcile("r")
        assert request(cluster) == before
        (line,) = [record for record in caplog.records if "certificates" in record.name]
        assert line.levelname == "WARNING"
        assert "'r'" in line.getMessage() and "gets no certificate" in line.getMessage()


async def test_unfit_request_fails_by_the_other_rule(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=[APPROVED], wanted=Wanted(names=[DNS]))
        context = controller_context(cluster, rules=Rules(unfit_requests="failed"))
        await CertificateSigning(context).reconcile("r")
        assert conditions_of(cluster) == [APPROVED, FAILED]
        failed = request(cluster)["status"]["conditions"][1]
        assert (failed["reason"], failed["status"]) == ("SignerValidationFailure", "True")
        assert failed["message"] == "it may not have subject alternative names"


@pytest.mark.parametrize("conditions", [[], [DENIED], [APPROVED, FAILED]])
async def test_request_that_is_not_approved_is_not_signed(tmp_path: Path, conditions: list[str]) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=conditions)
        assert await sign(cluster) is None


async def test_other_signers_are_left_to_others(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, signer="example.com/signer", conditions=[APPROVED])
        assert await sign(cluster) is None


async def test_issued_certificate_is_never_replaced(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=[APPROVED])
        first = await sign(cluster)
        assert first is not None and await sign(cluster) == first


@pytest.mark.parametrize(
    ("duration", "asked", "valid"),
    [(7200.0, None, 7200), (7200.0, 600, 600), (7200.0, 86400, 7200), (365 * 86400.0, 86400, 86100)],
)
async def test_shorter_of_flag_and_request_is_the_validity(
    tmp_path: Path, duration: float, asked: int | None, valid: int
) -> None:
    more = {} if asked is None else {"expirationSeconds": asked}
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=[APPROVED], **more)
        clock = StoppedClock()
        certificate = await sign(cluster, signing_duration=duration, clock=clock)
        assert certificate is not None
        assert certificate.not_valid_after_utc.timestamp() == clock.now() / 1_000_000 + valid


class StoppedClock:
    def now(self) -> int:
        return START


async def test_signer_uses_its_own_ca(tmp_path: Path) -> None:
    other = own_certificates("kubernetes")
    files = {CLUSTER.node_client_signer: AuthorityFiles(other.authority, other.key("ca"))}
    authorities = Authorities(partial(own_certificates, "cluster"), files)
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=[APPROVED])
        certificate = await sign(cluster, authorities=authorities)
        assert certificate is not None
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(other.authority.read_bytes()))


async def test_without_a_ca_the_request_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Certificates:
        raise CertificateError("cannot keep certificates in pki: No space left on device")

    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, conditions=[APPROVED])
        with pytest.raises(RetryLater):
            await sign(cluster, authorities=Authorities(fail))
        assert "No space left" in caplog.text
        assert request(cluster)["status"].get("certificate") is None

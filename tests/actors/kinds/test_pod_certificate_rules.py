"""PodCertificateRequest: whose certificate it is, its key, and what a signer may store."""

from __future__ import annotations

import base64
import datetime
from copy import deepcopy
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Causes, Definitions, replace
from tests.cases import cases

PLURAL = "podcertificaterequests"
KEY, OTHER = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
START = datetime.datetime(2020, 1, 1)
HOUR = datetime.timedelta(hours=1)


@cache
def kinds(version: str = "1.36") -> Definitions:
    release = choose_release(version, "PodCertificateRequest=true")
    return Definitions(built_in(KUBERNETES, release, Enablement(every=True)))


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def public(key: Any) -> str:
    return encoded(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def stub(key: Any, digest: Any = None) -> str:
    made = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, digest)
    return encoded(made.public_bytes(Encoding.DER))


def certificate(key: Any = KEY, hours: int = 2, *names: x509.GeneralName) -> str:
    empty = x509.Name([])
    builder = x509.CertificateBuilder(empty, empty, key.public_key(), 7, START, START + hours * HOUR)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(OTHER, None).public_bytes(Encoding.PEM).decode()


def request(**spec: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "signerName": "example.com/pods",
        **{f"{part}Name": part for part in ("pod", "node")},
        "serviceAccountName": "robot",
        **{f"{part}UID": "u" for part in ("pod", "serviceAccount", "node")},
        "stubPKCS10Request": stub(KEY),
    }
    return {"metadata": {"name": "a"}, "spec": {**whole, **spec}}


def condition(kind: str = "Issued", status: str = "True") -> dict[str, Any]:
    time = "2020-01-01T00:00:00Z"
    return {"type": kind, "status": status, "lastTransitionTime": time, "reason": "R", "message": ""}


def issued(**changed: Any) -> dict[str, Any]:
    return {
        "conditions": [condition()],
        "certificateChain": certificate(),
        "notBefore": "2020-01-01T00:00:00Z",
        "beginRefreshAt": "2020-01-01T01:00:00Z",
        "notAfter": "2020-01-01T02:00:00Z",
        **changed,
    }


def status_causes(status: dict[str, Any], before: dict[str, Any] | None = None, **spec: Any) -> Causes:
    old = kinds().stored(PLURAL, request(**spec))
    new = deepcopy(old)
    new["status"] = status
    if before:
        old, causes = replace(kinds()[PLURAL], {**old, "status": before}, old, "status")
        assert causes == []

    return replace(kinds()[PLURAL], new, old, "status")[1]


PROVEN = {
    "stubPKCS10Request": None,
    "pkixPublicKey": public(KEY),
    "proofOfPossession": encoded(KEY.sign(b"u")),
}
UNPROVEN = {**PROVEN, "proofOfPossession": encoded(OTHER.sign(b"u"))}
SMALL_CURVE = ec.generate_private_key(ec.SECP224R1())
ONE_OF = "Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
RANGE = "must be in the range [3600, "


@cases(
    ("changed", "expected"),
    [
        ({}, []),
        (PROVEN, []),
        ({"signerName": ""}, [("spec.signerName", "Required value")]),
        ({"nodeUID": ""}, [("spec.nodeUID", 'Invalid value: "": must not be empty')]),
        ({"podUID": "u" * 129}, [("spec.podUID", "Too long: may not be more than 128 bytes")]),
        (
            {"maxExpirationSeconds": 3599},
            [("spec.maxExpirationSeconds", f"Invalid value: 3599: {RANGE}7862400]")],
        ),
        ({"maxExpirationSeconds": 7862400}, []),
        (
            {"maxExpirationSeconds": 86401, "signerName": "kubernetes.io/pods"},
            [("spec.maxExpirationSeconds", f"Invalid value: 86401: {RANGE}86400]")],
        ),
        ({"pkixPublicKey": public(KEY)}, [("spec", ONE_OF)]),
        ({"stubPKCS10Request": None}, [("spec", ONE_OF)]),
        (
            {"stubPKCS10Request": "AAAA"},
            [("spec.stubPKCS10Request", "Invalid value: must be a valid PKCS#10 CSR")],
        ),
        (
            {"stubPKCS10Request": stub(SMALL_CURVE, hashes.SHA256())},
            [
                (
                    "spec.stubPKCS10Request",
                    'Invalid value: "curve P-224": elliptic public keys must use curve P256, P384, or P521',
                )
            ],
        ),
        (
            {**PROVEN, "pkixPublicKey": "AAAA"},
            [("spec.pkixPublicKey", 'Invalid value: "AAAA": must be a valid PKIX-serialized public key')],
        ),
        (
            UNPROVEN,
            [("spec.proofOfPossession", "Invalid value: could not verify proof-of-possession signature")],
        ),
        (
            {"unverifiedUserAnnotations": {"Plain": "x"}},
            [
                (
                    "spec.unverifiedUserAnnotations",
                    'Invalid value: "plain": must be a domain-prefixed key (such as "acme.io/foo")',
                )
            ],
        ),
    ],
)
def test_rules_of_requests(changed: dict[str, Any], expected: Causes) -> None:
    assert kinds().create_causes(PLURAL, request(**changed)) == expected


def test_spec_is_immutable() -> None:
    _, causes = kinds().update(PLURAL, request(), request(podName="other"))
    assert [field for field, _ in causes] == ["spec"] and causes[0][1].endswith("field is immutable")


@cases(
    ("status", "expected"),
    [
        (issued(), []),
        ({"conditions": [condition("Denied")]}, []),
        (
            {"conditions": [condition("Denied"), condition("Failed")]},
            [
                (
                    "status.conditions.[1].type",
                    'Invalid value: "Failed": There may be at most one condition with type "Issued", "Denied", or '
                    '"Failed"',
                )
            ],
        ),
        (
            {"conditions": [condition("Denied", "False")]},
            [("status.conditions.[0].status", 'Unsupported value: "False": supported values: "True"')],
        ),
        (
            issued(conditions=[condition("Failed")]),
            [
                (
                    "status",
                    "Invalid value: non-condition status fields must be empty when denying or failing the "
                    "PodCertificateRequest",
                )
            ],
        ),
        (
            issued(conditions=[]),
            [
                (
                    "status",
                    'Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"',
                )
            ],
        ),
        (
            issued(notAfter=None),
            [
                (
                    "status.notAfter",
                    "Required value: must be present and consistent with the issued certificate",
                )
            ],
        ),
        (
            issued(notAfter="2020-01-01T03:00:00Z"),
            [
                (
                    "status.notAfter",
                    'Invalid value: "2020-01-01T03:00:00Z": must be set to the NotAfter time encoded in the leaf '
                    "certificate",
                )
            ],
        ),
        (
            issued(beginRefreshAt="2020-01-01T00:09:59Z"),
            [
                (
                    "status.beginRefreshAt",
                    'Invalid value: "2020-01-01T00:09:59Z": must be at least 10 minutes after status.notBefore',
                )
            ],
        ),
    ],
)
def test_rules_of_outcomes(status: dict[str, Any], expected: Causes) -> None:
    given = {part: value for part, value in status.items() if value is not None}
    assert status_causes(given) == expected


@cases(
    ("chain", "why"),
    [
        ("", "issued certificate chain must contain at least one certificate"),
        (certificate(OTHER), "leaf certificate was not issued to the requested public key"),
        (
            certificate(KEY, 2, x509.DNSName(".a")),
            "leaf certificate's DNSName should not start or end with '.'",
        ),
        (certificate().replace("CERTIFICATE", "KEY"), "must consist entirely of CERTIFICATE PEM blocks"),
        (certificate() + certificate().replace("CERTIFICATE", "KEY"), "entirely of CERTFICATE PEM blocks"),
    ],
)
def test_rules_of_chains(chain: str, why: str) -> None:
    ((field, text),) = status_causes(issued(certificateChain=chain))
    assert field == "status.certificateChain" and text.endswith(why)


def test_decision_is_final() -> None:
    denied = {"conditions": [condition("Denied")]}
    assert status_causes(denied, before=denied) == []
    text = "Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"
    assert status_causes({"conditions": [condition("Failed")]}, before=denied) == [("status", text)]


def test_lifetime_is_at_most_the_requested_one() -> None:
    chain, end = certificate(KEY, 3), "2020-01-01T03:00:00Z"
    ((_, text),) = status_causes(issued(certificateChain=chain, notAfter=end), maxExpirationSeconds=7200)
    assert text == (
        "Invalid value: 10800000000000: leaf certificate lifetime must be <= spec.maxExpirationSeconds (7200)"
    )


def test_version_of_1_34_has_keys_only() -> None:
    alpha = kinds("1.34")
    sent = request(**PROVEN)
    del sent["spec"]["stubPKCS10Request"]
    assert alpha.create_causes(f"{PLURAL}/v1alpha1", sent) == []
    stored = alpha.stored(f"{PLURAL}/v1alpha1", sent)
    conversion = alpha[f"{PLURAL}/v1alpha1"].storage.conversion
    assert conversion is not None
    assert conversion.from_storage(stored)["spec"] == {**sent["spec"], "maxExpirationSeconds": 86400}
    empty = {**sent["spec"], "pkixPublicKey": None}
    ((field, text),) = alpha.create_causes(f"{PLURAL}/v1alpha1", {**sent, "spec": empty})
    assert (field, text) == (
        "spec.pkixPublicKey",
        "Invalid value: null: must be a valid PKIX-serialized public key",
    )

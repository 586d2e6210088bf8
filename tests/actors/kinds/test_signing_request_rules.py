"""CertificateSigningRequest: the immutable spec, conditions via approval, certificate via status."""

from __future__ import annotations

import base64
import datetime
import math
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import NameOID

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, replace
from tests.cases import cases

PLURAL = "certificatesigningrequests"
SUBJECT = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])


@cache
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def request() -> str:
    made = x509.CertificateSigningRequestBuilder().subject_name(SUBJECT).sign(key(), hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def signed_by(other: Any) -> str:
    digest = None if isinstance(other, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()
    made = x509.CertificateSigningRequestBuilder().subject_name(SUBJECT).sign(other, digest)
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


@cache
def primes() -> tuple[int, int]:
    numbers = rsa.generate_private_key(65537, 2048).private_numbers()
    return numbers.p, numbers.q


@cache
def dsa_key() -> dsa.DSAPrivateKey:
    return dsa.generate_private_key(1024)


@cache
def rsa_key(exponent: int) -> rsa.RSAPrivateKey:
    """A key with this public exponent, or the next possible one: libraries only generate common ones."""
    p, q = primes()
    while math.gcd(exponent, (p - 1) * (q - 1)) != 1:
        exponent += 2
    d = pow(exponent, -1, (p - 1) * (q - 1))
    crt = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    return rsa.RSAPrivateNumbers(p, q, d, *crt, rsa.RSAPublicNumbers(exponent, p * q)).private_key()


@cache
def certificate(serial: int = 1) -> str:
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(SUBJECT, SUBJECT, key().public_key(), serial)
    made = (
        builder.not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
        .sign(key(), hashes.SHA256())
    )
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def request_object(**spec: Any) -> dict[str, Any]:
    whole = {"request": request(), "signerName": "example.com/signer", "usages": ["client auth"], **spec}
    return {"metadata": {"name": "a"}, "spec": {k: v for k, v in whole.items() if v is not None}}


def condition(kind: str, status: str = "True", **parts: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, **parts}


def with_status(*conditions: Any, certificate: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": list(conditions)}
    return {**request_object(), "status": {**status, "certificate": certificate} if certificate else status}


def test_create_drops_the_status(kinds: Definitions) -> None:
    assert kinds.stored(PLURAL, with_status(condition("Approved"), certificate="AAAA"))["status"] == {}
    assert kinds.create_causes(PLURAL, request_object(expirationSeconds=600)) == []


def test_kinds_of_keys(kinds: Definitions) -> None:
    for good in (rsa_key(65537), ed25519.Ed25519PrivateKey.generate(), key()):
        assert kinds.create_causes(PLURAL, request_object(request=signed_by(good))) == []
    for wrong, why in (
        (rsa_key((1 << 31) + 1), "the public exponent of its RSA key has more than 31 bits"),
        (rsa_key((1 << 2000) + 1), "the public exponent of its RSA key has more than 31 bits"),
        (dsa_key(), "its key must be an RSA, ECDSA or Ed25519 key"),
        (ed448.Ed448PrivateKey.generate(), "its key must be an RSA, ECDSA or Ed25519 key"),
    ):
        [cause] = kinds.create_causes(PLURAL, request_object(request=signed_by(wrong)))
        assert why in str(cause)


@cases(
    ("spec", "field", "message"),
    [
        ({"usages": []}, "usages", "Required value: usages must be provided"),
        ({"usages": ["any", "any"]}, "usages[1]", 'Duplicate value: "any"'),
        ({"signerName": ""}, "signerName", "Required value: signerName must be provided"),
        (
            {"signerName": "nodomain"},
            "signerName",
            'Invalid value: "nodomain": must be a fully qualified domain and path of the form '
            "'example.com/signer-name'",
        ),
        (
            {"signerName": "a.b/c/d"},
            "signerName",
            'Invalid value: "a.b/c/d": must be a fully qualified domain and path of the form '
            "'example.com/signer-name'",
        ),
        (
            {"signerName": "example/x"},
            "signerName",
            'Invalid value: "example": should be a domain with at least two segments separated by dots',
        ),
        (
            {"expirationSeconds": 599},
            "expirationSeconds",
            "Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, request_object(**spec)) == [(f"spec.{field}", message)]


def test_names_that_no_url_can_hold_are_refused_if_nothing_else_is_wrong(kinds: Definitions) -> None:
    named = {**request_object(), "metadata": {"name": "a/b"}}
    assert kinds.create_causes(PLURAL, named) == [
        ("metadata.name", "Invalid value: \"a/b\": may not contain '/'")
    ]
    too_short = {**request_object(expirationSeconds=1), "metadata": {"name": "a/b"}}
    assert [field for field, _ in kinds.create_causes(PLURAL, too_short)] == ["spec.expirationSeconds"]


def test_signer_names_are_validated(kinds: Definitions) -> None:
    for name in ("example.com/ns.name-1", "a.b/" + ".".join(["x" * 63] * 3)):
        assert kinds.create_causes(PLURAL, request_object(signerName=name)) == []
    for name, part in (
        ("Example.com/x", '"Example"'),
        ("example.com/Bad_", '"Bad_"'),
        ("example.com/", '""'),
    ):
        [(field, message)] = kinds.create_causes(PLURAL, request_object(signerName=name))
        assert field == "spec.signerName" and f"validating label {part}: a lowercase" in message
    long = ".".join(["x" * 60] * 5)
    assert ("spec.signerName", "Too long: must have at most 253 bytes") in kinds.create_causes(
        PLURAL, request_object(signerName=f"{long}/x")
    )
    path = ".".join(["x" * 63] * 9)
    assert kinds.create_causes(PLURAL, request_object(signerName=f"example.com/{path}")) == [
        ("spec.signerName", "Too long: must have at most 571 bytes")
    ]


def test_legacy_signer_is_refused_for_new_requests(kinds: Definitions, names: Names) -> None:
    old = names.key("legacy-unknown")
    assert kinds.create_causes(PLURAL, request_object(signerName=old)) == [
        (
            "spec.signerName",
            f'Invalid value: "{old}": the legacy signerName is not allowed via this API version',
        )
    ]
    assert kinds.update(PLURAL, request_object(signerName=old), request_object(signerName=old))[1] == []


def test_unknown_usages_are_refused(kinds: Definitions) -> None:
    [(field, message)] = kinds.create_causes(
        PLURAL, request_object(usages=["client auth", "world domination"])
    )
    assert field == "spec.usages[1]" and message.startswith('Unsupported value: "world domination": ')
    assert (
        kinds.create_causes(PLURAL, request_object(usages=["signing", "s/mime", "netscape sgc", "any"])) == []
    )


def pem(kind: str, content: bytes) -> str:
    body = base64.encodebytes(content).decode()
    return base64.b64encode(f"-----BEGIN {kind}-----\n{body}-----END {kind}-----\n".encode()).decode()


def test_request_must_be_a_pem_request_with_a_valid_signature(kinds: Definitions) -> None:
    broken = base64.b64decode(request()).decode().splitlines()
    content = bytearray(base64.b64decode("".join(broken[1:-1])))
    content[-1] ^= 1
    for wrong in (
        "",
        base64.b64encode(b"no pem at all").decode(),
        certificate(),
        pem("CERTIFICATE REQUEST", b"\0\1"),
        pem("CERTIFICATE REQUEST", bytes(content)),
    ):
        causes = kinds.create_causes(PLURAL, request_object(request=wrong))
        assert [field for field, _ in causes] == ["spec.request"]


def test_update_changes_only_metadata(kinds: Definitions) -> None:
    after = {
        **with_status(condition("Approved"), certificate=certificate()),
        "spec": request_object(usages=["any"])["spec"],
    }
    new, causes = kinds.update(PLURAL, request_object(), after)
    assert causes == [] and new["spec"]["usages"] == ["client auth"] and new["status"] == {}


def changed(
    kinds: Definitions, before: dict[str, Any], after: dict[str, Any], subresource: str
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Replace one stored status by another. A create would drop both."""
    old = kinds.stored(PLURAL, request_object())
    old["status"] = kinds.decode(PLURAL, before)["status"]
    new = kinds.stored(PLURAL, request_object())
    new["status"] = kinds.decode(PLURAL, after)["status"]
    return replace(kinds[PLURAL], new, old, subresource)


def test_only_the_approval_subresource_adds_approvals(kinds: Definitions) -> None:
    new, causes = changed(
        kinds, with_status(), with_status(condition("Approved"), certificate=certificate()), "approval"
    )
    assert causes == [] and list(new["status"]) == ["conditions"]
    for kind in ("Approved", "Denied"):
        _, causes = changed(kinds, with_status(), with_status(condition(kind)), "status")
        assert causes == [
            ("status.conditions", f'Forbidden: updates may not add a condition of type "{kind}"')
        ]
    assert changed(kinds, with_status(), with_status(condition("Failed")), "status")[1] == []


@cases("subresource", ["approval", "status"])
def test_conditions_cannot_be_removed(kinds: Definitions, subresource: str) -> None:
    for kind in ("Approved", "Denied", "Failed"):
        _, causes = changed(kinds, with_status(condition(kind)), with_status(), subresource)
        assert causes == [
            ("status.conditions", f'Forbidden: updates may not remove a condition of type "{kind}"')
        ]


def test_status_update_keeps_approvals_unchanged(kinds: Definitions) -> None:
    before = with_status(condition("Approved", reason="Because"))
    after = with_status(condition("Approved", reason="Otherwise"), condition("Failed"))
    new, causes = changed(kinds, before, after, "status")
    assert causes == [] and new["status"]["conditions"][0]["reason"] == "Because"


@cases(
    ("conditions", "field", "message"),
    [
        (
            [condition("Approved", "False")],
            "[0].status",
            'Unsupported value: "False": supported values: "True"',
        ),
        ([condition("Failed", "")], "[0].status", "Required value"),
        ([condition("")], "[0].type", "Required value"),
        ([condition("Other"), condition("Other")], "[1].type", 'Duplicate value: "Other"'),
        (
            [condition("Other", "Maybe")],
            "[0].status",
            'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        ),
        (
            [condition("Approved"), condition("Denied")],
            "[1].type",
            'Invalid value: "Denied": Approved and Denied conditions are mutually exclusive',
        ),
    ],
)
def test_approval_update_reports_invalid_conditions(
    kinds: Definitions, conditions: Any, field: str, message: str
) -> None:
    _, causes = changed(kinds, with_status(), with_status(*conditions), "approval")
    assert causes == [(f"status.conditions{field}", message)]


def test_status_update_sets_the_certificate_once(kinds: Definitions) -> None:
    approved = with_status(condition("Approved"))
    issued = with_status(condition("Approved"), certificate=certificate())
    assert changed(kinds, approved, issued, "status")[1] == []
    assert changed(kinds, issued, issued, "status")[1] == []
    other = with_status(condition("Approved"), certificate=certificate(2))
    for after in (other, approved):
        assert changed(kinds, issued, after, "status")[1] == [
            ("status.certificate", "Forbidden: updates may not modify existing certificate content")
        ]


def test_status_update_refuses_what_is_no_certificate(kinds: Definitions) -> None:
    def wrong(content: str) -> str:
        [(field, message)] = changed(kinds, with_status(), with_status(certificate=content), "status")[1]
        assert field == "status.certificate"
        return message.removeprefix('Invalid value: "<certificate data>": ')

    assert wrong("aGVsbG8=") == "must contain at least one CERTIFICATE PEM block"
    assert wrong(request()) == 'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"'
    assert wrong(pem("CERTIFICATE", b"\0")).startswith("a certificate cannot be read")
    lines = base64.b64decode(certificate()).decode().partition("\n")
    headed = f"{lines[0]}\nA: b\n\n{lines[2]}"
    assert wrong(base64.b64encode(headed.encode()).decode()) == "no PEM block headers are permitted"


def test_field_selectors_subresources_and_deletion(kinds: Definitions) -> None:
    definition = kinds[PLURAL]
    assert definition.selects("spec.signerName") and not definition.selects("metadata.namespace")
    assert definition.unsupported_field_text("x") == "field label not supported: x"
    assert (
        definition.selection.fields["spec.signerName"](kinds.stored(PLURAL, request_object()))
        == "example.com/signer"
    )
    assert not definition.deletion.returns_object
    assert {one.name for one in definition.subresources} == {"approval", "status"}

"""The contents of certificates that the built-in signers issue."""

from __future__ import annotations

import base64
import datetime
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rewound.actors.certificates.pki import CertificateError
from rewound.actors.certificates.signing import Authority, UnfitRequest, expiry_of, issue
from tests.actors.certificates.making_requests import Wanted, key
from tests.actors.certificates.shared_folder import own_certificates
from tests.cases import cases

CLIENT = ["digital signature", "key encipherment", "client auth"]
HOUR, YEAR = 3600, 365 * 86400


def own() -> Authority:
    made = own_certificates("cluster")
    return Authority(made.authority.read_bytes(), made.key("ca").read_bytes())


def authority_certificate() -> x509.Certificate:
    return x509.load_pem_x509_certificate(own().certificate)


NOW = authority_certificate().not_valid_before_utc.timestamp() + HOUR


def issued(wanted: Wanted, usages: list[str] | None = None, lifetime: float = YEAR) -> x509.Certificate:
    pem = issue(wanted.encoded(), CLIENT if usages is None else usages, own(), NOW, lifetime)
    return x509.load_pem_x509_certificate(pem)


def value(certificate: x509.Certificate, kind: type[x509.ExtensionType]) -> object:
    return certificate.extensions.get_extension_for_class(kind).value


def test_subject_and_key_are_those_of_the_request_and_the_ca_signed_it() -> None:
    certificate = issued(Wanted((("O", "a"), ("O", "system:masters"), ("OU", "unit"), ("CN", "carol"))))
    assert certificate.subject.rfc4514_string() == "CN=carol,OU=unit,O=system:masters,O=a"
    assert certificate.public_key() == key().public_key()
    certificate.verify_directly_issued_by(authority_certificate())


def test_usages_come_from_the_spec() -> None:
    """Not taken from the request, which asks for others here."""
    asked = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CODE_SIGNING])
    certificate = issued(Wanted(extensions=[asked]))
    assert value(certificate, x509.ExtendedKeyUsage) == x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical and usage.value.digital_signature and usage.value.key_encipherment
    assert not (usage.value.key_cert_sign or usage.value.crl_sign or usage.value.data_encipherment)
    only_extended = issued(Wanted(), ["client auth"])
    with pytest.raises(x509.ExtensionNotFound):
        only_extended.extensions.get_extension_for_class(x509.KeyUsage)


def test_no_certificate_is_a_ca_even_if_the_request_asks_for_it() -> None:
    certificate = issued(Wanted(extensions=[x509.BasicConstraints(ca=True, path_length=None)]))
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical and constraints.value == x509.BasicConstraints(ca=False, path_length=None)


def test_alternative_names_are_kept_and_other_extensions_dropped() -> None:
    names = [
        x509.DNSName("a.example.com"),
        x509.IPAddress(ipaddress.ip_address("fd00::7")),
        x509.RFC822Name("a@example.com"),
        x509.UniformResourceIdentifier("spiffe://a/b"),
    ]
    foreign = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    certificate = issued(Wanted(names=[*names, x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))]))
    assert value(certificate, x509.SubjectAlternativeName) == x509.SubjectAlternativeName(names)
    other = issued(Wanted(extensions=[foreign]))
    assert {one.oid.dotted_string for one in other.extensions} == {
        "2.5.29.15",  # key usage
        "2.5.29.37",  # extended key usage
        "2.5.29.19",  # basic constraints
        "2.5.29.35",  # authority key identifier
    }


@cases(
    ("lifetime", "ends"),
    [
        (YEAR, YEAR - 300),
        (8 * HOUR, 8 * HOUR - 300),
        (8 * HOUR - 1, 8 * HOUR - 1),
        (600, 600),
        (100 * YEAR, None),  # at most as long as the CA
    ],
)
def test_validity(lifetime: int, ends: int | None) -> None:
    certificate = issued(Wanted(), lifetime=lifetime)
    assert certificate.not_valid_before_utc.timestamp() == NOW - 300
    authority_end = authority_certificate().not_valid_after_utc.timestamp()
    assert certificate.not_valid_after_utc.timestamp() == (authority_end if ends is None else NOW + ends)


def test_serial_numbers_differ() -> None:
    assert issued(Wanted()).serial_number != issued(Wanted()).serial_number


def test_unreadable_or_changed_request_gets_no_certificate() -> None:
    with pytest.raises(UnfitRequest):
        issue(base64.b64encode(b"nonsense").decode(), CLIENT, own(), NOW, YEAR)
    der = bytearray(
        x509.load_pem_x509_csr(base64.b64decode(Wanted().encoded())).public_bytes(serialization.Encoding.DER)
    )
    der[der.index(b"system:nodes")] ^= 1
    block = base64.encodebytes(bytes(der)).decode()
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{block}-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(UnfitRequest, match="not by its own key"):
        issue(base64.b64encode(pem.encode()).decode(), CLIENT, own(), NOW, YEAR)


def test_ca_that_cannot_sign_is_an_error_without_its_key() -> None:
    ends = authority_certificate().not_valid_after_utc.timestamp()
    with pytest.raises(CertificateError, match="expired"):
        issue(Wanted().encoded(), CLIENT, own(), ends + 1, YEAR)
    other = own_certificates("cluster").key("admin").read_bytes()
    with pytest.raises(CertificateError, match="not that of its certificate"):
        issue(Wanted().encoded(), CLIENT, Authority(own().certificate, other), NOW, YEAR)
    with pytest.raises(CertificateError, match="cannot be read") as error:
        issue(Wanted().encoded(), CLIENT, Authority(own().certificate, b"PRIVATE"), NOW, YEAR)
    assert "PRIVATE" not in str(error.value)


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_operator_ca_may_have_another_kind_of_key(kind: str) -> None:
    ca_key = (
        ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else rsa.generate_private_key(65537, 2048)
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "operator")])
    begins = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(ca_key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, None if kind == "ed25519" else hashes.SHA256())
    )
    authority = Authority(
        certificate.public_bytes(serialization.Encoding.PEM),
        ca_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    made = x509.load_pem_x509_certificate(issue(Wanted().encoded(), CLIENT, authority, NOW, YEAR))
    made.verify_directly_issued_by(certificate)
    assert made.not_valid_after_utc == certificate.not_valid_after_utc


def test_expiry_of_a_certificate_in_an_object() -> None:
    pem = issue(Wanted().encoded(), CLIENT, own(), NOW, 600)
    assert expiry_of(base64.b64encode(pem).decode()) == NOW + 600
    assert expiry_of(base64.b64encode(b"nonsense").decode()) is None

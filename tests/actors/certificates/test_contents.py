from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from rewound.actors.certificates.names import serving_names
from rewound.actors.certificates.pki import CertificateError, Certificates, prepare
from rewound.actors.names import CLUSTER

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return prepare(tmp_path_factory.mktemp("data") / "pki", serving_names(CLUSTER, ("10.1.2.3",)), NOW)


def loaded(certificates: Certificates, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificates.certificate(name).read_bytes())


def test_first_start_creates_all_certificates(certificates: Certificates) -> None:
    assert certificates.made == ("ca", "server", "admin", "proxy-ca", "proxy")


@pytest.mark.parametrize("name", ["ca", "server", "admin", "proxy-ca", "proxy"])
def test_keys_are_readable_by_their_owner_only(certificates: Certificates, name: str) -> None:
    assert stat.S_IMODE(certificates.key(name).stat().st_mode) == 0o600
    assert stat.S_IMODE(certificates.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["ca", "server", "admin", "proxy-ca", "proxy"])
def test_keys_are_p256_and_the_ca_signs_every_certificate(certificates: Certificates, name: str) -> None:
    certificate = loaded(certificates, name)
    certificate.verify_directly_issued_by(loaded(certificates, "proxy-ca" if "proxy" in name else "ca"))
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)


@pytest.mark.parametrize(
    ("name", "is_authority"),
    [("ca", True), ("server", False), ("admin", False), ("proxy-ca", True), ("proxy", False)],
)
def test_only_the_ca_may_sign(certificates: Certificates, name: str, is_authority: bool) -> None:
    extensions = loaded(certificates, name).extensions
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is is_authority
    assert extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is is_authority


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("server", ExtendedKeyUsageOID.SERVER_AUTH),
        ("admin", ExtendedKeyUsageOID.CLIENT_AUTH),
        ("proxy", ExtendedKeyUsageOID.CLIENT_AUTH),
    ],
)
def test_extended_key_usage(certificates: Certificates, name: str, purpose: x509.ObjectIdentifier) -> None:
    usage = loaded(certificates, name).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [purpose]


def test_serving_certificate_names_machine_bind_address_and_service(
    certificates: Certificates,
) -> None:
    extension = loaded(certificates, "server").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    names = {str(name.value) for name in extension.value}
    service = {"kubernetes", "kubernetes.default", "kubernetes.default.svc"}
    assert {"localhost", "127.0.0.1", "::1", "10.1.2.3", *service} <= names
    assert "kubernetes.default.svc.cluster.local" in names


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_unspecified_address_is_not_in_the_certificate(everywhere: str) -> None:
    assert everywhere not in serving_names(CLUSTER, (everywhere,))


def test_each_name_is_listed_once() -> None:
    names = serving_names(CLUSTER, ("127.0.0.1",))
    assert len(names) == len(set(names))


def test_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match="cannot keep certificates in"):
        prepare(tmp_path / "file" / "pki", ("localhost",), NOW)

"""Client certificates of users: a key and a request for the API, or a certificate signed by the CA of a data folder."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rewound.client.credentials import KeyPair
from rewound.client.errors import ClientError

# The clock of a server may be behind: a new certificate must be valid already.
_CLOCK_SKEW = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Request:
    pem: bytes  # PKCS#10
    key: bytes = field(repr=False)  # PEM


def make_request(user: str, groups: Sequence[str]) -> Request:
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject(user, groups))
    return Request(request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _private(key))


def sign_with_data_folder(folder: Path, user: str, groups: Sequence[str], seconds: float) -> KeyPair:
    """Sign with the CA of the data folder; no server needs to run."""
    certificate, ca_key = _authority(folder / "pki")
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    ends = min(now + datetime.timedelta(seconds=seconds), certificate.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(user, groups))
        .issuer_name(certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_USAGE, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    signed = builder.sign(ca_key, hashes.SHA256())
    return KeyPair(signed.public_bytes(serialization.Encoding.PEM), _private(key))


_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=False,
    crl_sign=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _authority(pki: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    except OSError as error:
        raise ClientError(
            f"--data-dir: {error.filename}: {error.strerror}; name the data folder of a server with a secure port"
        ) from error
    except (ValueError, TypeError) as error:
        raise ClientError(
            f"--data-dir: {pki} has no usable CA; start the server once, it makes another"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ClientError(
            f"--data-dir: {pki / 'ca.key'} is not an ECDSA key; start the server once, it makes another"
        )
    return certificate, key


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    try:
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    except ValueError as error:
        raise ClientError(
            "user and groups of a certificate have 1 to 64 characters each; give others, or use a service account"
        ) from error


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

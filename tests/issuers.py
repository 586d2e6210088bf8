"""Certificate authorities for tests: `issuer("proxies").leaf("front")` is a file with a certificate and its key.

Keys are made once for the whole run. Certificates are valid around the real time, which the TLS library reads.
"""

from __future__ import annotations

import datetime
import ipaddress
import tempfile
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH

_folder = tempfile.TemporaryDirectory(prefix="rewound-issuers-")
_numbers = count()
_LOCAL = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


@dataclass(frozen=True)
class Issuer:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    file: Path  # the certificate alone

    def leaf(
        self,
        name: str,
        *groups: str,
        usages: tuple[x509.ObjectIdentifier, ...] | None = (CLIENT,),
        intermediates: tuple[Issuer, ...] = (),
        expired: bool = False,
        names: tuple[x509.GeneralName, ...] | None = None,
    ) -> Path:
        """A file with a certificate for this name (or without), its key, and further certificates to send.

        `usages` None: any. `names`: its subject alternative names, if they are not those of this machine.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name, groups)
        certificate = _sign(
            subject, key, self.certificate.subject, self.key, False, usages, expired=expired, names=names
        )
        sent = [certificate, *(one.certificate for one in intermediates)]
        return _write(b"".join(map(_pem, sent)) + _key_pem(key))

    def intermediate(self, name: str) -> Issuer:
        key = ec.generate_private_key(ec.SECP256R1())
        return _issuer(_sign(_subject(name), key, self.certificate.subject, self.key, True), key)

    def renewed(self) -> Issuer:
        """Another certificate of the same CA."""
        subject = self.certificate.subject
        return _issuer(_sign(subject, self.key, subject, self.key, True), self.key)


@cache
def issuer(name: str, *, ca: bool = True) -> Issuer:
    """A self-signed authority; without `ca`, its certificate lacks the CA flag."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _issuer(_sign(_subject(name), key, _subject(name), key, ca, None if ca else (SERVER,)), key)


def bundle(*issuers: Issuer) -> Path:
    return _write(b"".join(_pem(one.certificate) for one in issuers))


def with_key(one: Issuer) -> Path:
    return _write(_pem(one.certificate) + _key_pem(one.key))


def _issuer(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issuer:
    return Issuer(certificate, key, _write(_pem(certificate)))


def _write(data: bytes) -> Path:
    path = Path(_folder.name, f"{next(_numbers)}.pem")
    path.write_bytes(data)
    return path


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _subject(name: str, groups: tuple[str, ...] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    return x509.Name(attributes)


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_name: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    ca: bool,
    usages: tuple[x509.ObjectIdentifier, ...] | None = None,
    *,
    expired: bool = False,
    names: tuple[x509.GeneralName, ...] | None = None,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2 if expired else 0)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    alternatives = _LOCAL if names is None else names
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    if usages is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(signer, hashes.SHA256())

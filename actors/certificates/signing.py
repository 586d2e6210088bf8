"""Issues the certificate of an approved request.

Subject, public key and names come from the request, usages from the object's spec; every other extension that the
request asks for is left out, and no certificate is a CA. The functions import the cryptography library when they run:
controllers call them in a thread.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from actors.certificates.authorities import Authority
from actors.certificates.requests import UnfitRequest, alternative_names, load_request
from actors.certificates.store import CertificateError
from actors.kinds.values.pem import blocks_of

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

# A client whose clock is behind must not see a new certificate as not yet valid.
BACKDATE: Final = 5 * 60
# Longer certificates end as much earlier, so that they are valid for as long as was asked for. Five minutes are a large
# part of the validity of shorter ones, which keep their end.
SHORT: Final = 8 * 3600
_KEY_USAGES: Final = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED_USAGES: Final = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}


def issue(content: str, usages: Sequence[str], authority: Authority, now: float, lifetime: float) -> bytes:
    """The PEM certificate for the base64 text of `spec.request`, valid for `lifetime` seconds but not beyond the CA.

    It begins five minutes ago. Raises UnfitRequest, or CertificateError if the CA cannot sign.
    """
    from cryptography.hazmat.primitives import serialization

    issuer, key = _load(authority)
    authority_ends = issuer.not_valid_after_utc.timestamp()
    if authority_ends <= now:
        raise CertificateError("the CA that signs certificates has expired; replace it")
    begins = now - BACKDATE
    ends = min((now if lifetime < SHORT else begins) + lifetime, authority_ends)
    request = load_request(content)
    try:
        builder = _builder(request, issuer, begins, ends)
        for extension, critical in _extensions(request, issuer, usages):
            builder = builder.add_extension(extension, critical=critical)
        certificate = builder.sign(key, _digest(key))
    except Exception as error:
        raise UnfitRequest(f"no certificate can be made from it: {error}") from None
    return certificate.public_bytes(serialization.Encoding.PEM)


def expiry_of(content: str) -> float | None:
    """When the first certificate in the base64 text of `status.certificate` expires; None if it cannot be read."""
    from cryptography import x509

    block = next(blocks_of(base64.b64decode(content).decode("latin-1")), None)
    if block is None:
        return None
    try:
        return x509.load_der_x509_certificate(block.content).not_valid_after_utc.timestamp()
    except ValueError:
        return None


def _load(authority: Authority) -> tuple[x509.Certificate, CertificateIssuerPrivateKeyTypes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate)
        key = serialization.load_pem_private_key(authority.key, None)
    except Exception:
        raise CertificateError("the CA that signs certificates cannot be read; check its files") from None
    if certificate.public_key() != key.public_key():
        raise CertificateError("the key of the CA that signs certificates is not that of its certificate")
    return certificate, key  # type: ignore[return-value]


def _builder(
    request: x509.CertificateSigningRequest, issuer: x509.Certificate, begins: float, ends: float
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_datetime(begins))
        .not_valid_after(_datetime(ends))
    )


def _extensions(
    request: x509.CertificateSigningRequest, issuer: x509.Certificate, usages: Sequence[str]
) -> Iterator[tuple[x509.ExtensionType, bool]]:
    """Each with whether it is critical."""
    from cryptography import x509

    key_usages = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    extended = dict.fromkeys(_EXTENDED_USAGES[usage] for usage in usages if usage in _EXTENDED_USAGES)
    if key_usages:
        yield x509.KeyUsage(**{name: name in key_usages for name in _KEY_USAGES.values()}), True
    if extended:
        yield x509.ExtendedKeyUsage(map(x509.ObjectIdentifier, extended)), False
    yield x509.BasicConstraints(ca=False, path_length=None), True
    yield _authority_identifier(issuer), False
    kept = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
    names = [name for name in alternative_names(request) or () if isinstance(name, kept)]
    if names:
        yield x509.SubjectAlternativeName(names), not list(request.subject)


def _authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    from cryptography import x509

    try:
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _digest(key: CertificateIssuerPrivateKeyTypes) -> hashes.SHA256 | None:
    """Ed25519 and Ed448 have a digest of their own."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed448, ed25519

    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def _datetime(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)

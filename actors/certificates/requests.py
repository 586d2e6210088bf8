"""Reads certificate requests (PKCS#10): the facts that the rules of signers are about.

The functions import the cryptography library when they run, and take some milliseconds: controllers call them in a
thread.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.kinds.values.pem import blocks_of

if TYPE_CHECKING:
    from cryptography import x509


class UnfitRequest(Exception):
    """A request that no certificate is issued for; says why."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    common_names: tuple[str, ...]
    organizations: tuple[str, ...]
    has_alternative_names: bool  # the extension is there, whatever is in it
    dns_names: int = 0
    addresses: int = 0
    other_names: int = 0  # mail addresses, URIs and everything else


def load_request(content: str) -> x509.CertificateSigningRequest:
    """Read the base64 text of `spec.request`."""
    from cryptography import x509

    block = next(blocks_of(base64.b64decode(content).decode("latin-1")), None)
    if block is None:
        raise UnfitRequest("it holds no PEM block")
    try:
        request = x509.load_der_x509_csr(block.content)
        signed = request.is_signature_valid
    except Exception as error:
        raise UnfitRequest(f"it cannot be read: {error}") from None
    if not signed:
        raise UnfitRequest("its signature is not by its own key")
    return request


def facts_of(content: str) -> RequestFacts:
    """The facts of the base64 text of `spec.request`."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    request = load_request(content)
    try:
        names = alternative_names(request)
        subject = request.subject
    except Exception as error:
        raise UnfitRequest(f"its subject or its names cannot be read: {error}") from None
    dns = sum(isinstance(name, x509.DNSName) for name in names or ())
    addresses = sum(isinstance(name, x509.IPAddress) for name in names or ())
    return RequestFacts(
        tuple(str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)),
        tuple(str(one.value) for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)),
        names is not None,
        dns,
        addresses,
        len(names or ()) - dns - addresses,
    )


def alternative_names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName] | None:
    """The subject alternative names that the request asks for; None without the extension."""
    from cryptography import x509

    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return None

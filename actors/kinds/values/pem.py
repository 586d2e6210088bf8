"""PEM text in objects: parses its blocks and checks certificates and certificate requests.

The cryptography library is imported on first use: it takes longer to load than all declarations.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

_BLOCK = re.compile(
    r"^-----BEGIN ([^\n]*)-----[ \t]*\r?\n(.*?)^-----END \1-----[ \t]*\r?$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    kind: str
    headers: bool
    content: bytes


class InvalidPEM(ValueError):
    """The text does not hold what it should; says why."""


def blocks_of(text: str) -> Iterator[Block]:
    """Blocks in order; malformed ones are skipped, like everything between blocks."""
    for found in _BLOCK.finditer(text):
        head, blank, body = found[2].replace("\r", "").partition("\n\n")
        headers = bool(blank) and ":" in head
        try:
            yield Block(found[1], headers, base64.b64decode("".join((body if headers else found[2]).split())))
        except binascii.Error:
            continue


def check_request(content: str) -> None:
    """Check base64 text: a certificate request signed with its own key."""
    from cryptography import x509

    block = next(blocks_of(_text(content)), None)
    if block is None or block.kind != "CERTIFICATE REQUEST":
        raise InvalidPEM("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_der_x509_csr(block.content)
        signed = request.is_signature_valid
    except Exception as error:
        raise InvalidPEM(f"the certificate request cannot be read: {error}") from None
    if not signed:
        raise InvalidPEM("the signature of the certificate request is not by its own key")


def check_certificates(content: str) -> None:
    """Check base64 text: one or more certificates and nothing else, or no text."""
    if not content:
        return
    from cryptography import x509

    blocks = list(blocks_of(_text(content)))
    for block in blocks:
        if block.kind != "CERTIFICATE":
            raise InvalidPEM(f'only CERTIFICATE PEM blocks are allowed, found "{block.kind}"')
        if block.headers:
            raise InvalidPEM("no PEM block headers are permitted")
        try:
            x509.load_der_x509_certificate(block.content)
        except Exception as error:
            raise InvalidPEM(f"a certificate cannot be read: {error}") from None
    if not blocks:
        raise InvalidPEM("must contain at least one CERTIFICATE PEM block")


def _text(content: str) -> str:
    return base64.b64decode(content).decode("latin-1")

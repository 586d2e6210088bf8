"""PEM text in objects: the blocks it holds, and whether they are what they say.

The library that reads certificates is loaded with the first of them: it takes longer than all declarations.
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


class Unfit(ValueError):
    """The text does not hold what it should; says why."""


def blocks_of(text: str) -> Iterator[Block]:
    """Blocks in order; what is not well-formed is passed over, like everything between blocks."""
    for found in _BLOCK.finditer(text):
        head, blank, body = found[2].replace("\r", "").partition("\n\n")
        headers = bool(blank) and ":" in head
        try:
            yield Block(found[1], headers, base64.b64decode("".join((body if headers else found[2]).split())))
        except binascii.Error:
            continue


def check_request(content: str) -> None:
    """Of base64 text: a certificate request with a signature by its own key."""
    from cryptography import x509

    block = next(blocks_of(_text(content)), None)
    if block is None or block.kind != "CERTIFICATE REQUEST":
        raise Unfit("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_der_x509_csr(block.content)
        signed = request.is_signature_valid
    except Exception as error:
        raise Unfit(f"the certificate request cannot be read: {error}") from None
    if not signed:
        raise Unfit("the signature of the certificate request is not by its own key")


def check_certificates(content: str) -> None:
    """Of base64 text: nothing but certificates, at least one, or nothing at all."""
    if not content:
        return
    from cryptography import x509

    blocks = list(blocks_of(_text(content)))
    for block in blocks:
        if block.kind != "CERTIFICATE":
            raise Unfit(f'only CERTIFICATE PEM blocks are allowed, found "{block.kind}"')
        if block.headers:
            raise Unfit("no PEM block headers are permitted")
        try:
            x509.load_der_x509_certificate(block.content)
        except Exception as error:
            raise Unfit(f"a certificate cannot be read: {error}") from None
    if not blocks:
        raise Unfit("must contain at least one CERTIFICATE PEM block")


def _text(content: str) -> str:
    return base64.b64decode(content).decode("latin-1")

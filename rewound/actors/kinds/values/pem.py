"""PEM text in objects: parses its blocks and checks certificates and certificate requests.

The cryptography library is imported on first use: it takes longer to load than all declarations.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from rewound.actors.golang.quoting import quoted_start
from rewound.actors.runtime.time_limit import need_thread

_MAX_EXPONENT = 1 << 31
_BEGIN = re.compile(r"^-----BEGIN ([^\n]*)-----[ \t]*\r?\n", re.MULTILINE)
_END = re.compile(r"^-----END ([^\n]*)-----[ \t]*\r?$", re.MULTILINE)


class Block(NamedTuple):
    kind: str
    headers: bool
    content: bytes


class InvalidPEM(ValueError):
    """The text does not contain what it should; the message says why."""


def blocks_of(text: str) -> Iterator[Block]:
    """Return the blocks in order; malformed ones are skipped, like everything between blocks.

    Scans the text once for all ends and once for all beginnings: searching the end of each block separately would
    scan all of the text for each beginning without one.
    """
    ends: dict[str, list[re.Match[str]]] = {}
    for end in _END.finditer(text):
        ends.setdefault(end[1], []).append(end)
    for found in ends.values():
        found.reverse()
    read = 0
    for begin in _BEGIN.finditer(text):
        of_kind = ends.get(begin[1], [])
        while of_kind and of_kind[-1].start() < begin.end():
            of_kind.pop()
        if begin.start() < read or not of_kind:
            continue
        read = of_kind[-1].end()
        block = _block(begin[1], text[begin.end() : of_kind[-1].start()])
        if block is not None:
            yield block


def _block(kind: str, content: str) -> Block | None:
    head, blank, body = content.replace("\r", "").partition("\n\n")
    headers = bool(blank) and ":" in head
    try:
        return Block(kind, headers, base64.b64decode("".join((body if headers else content).split())))
    except binascii.Error:
        return None


def organizations_of_request(content: str) -> list[str]:
    """Return the organizations in the subject of a certificate request, which become groups of the certificate's
    user.
    """
    from cryptography import x509

    try:
        subject = x509.load_der_x509_csr(_request_block(content).content).subject
        found = subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    except Exception as error:
        raise InvalidPEM(f"the certificate request cannot be read: {error}") from None
    return [str(one.value) for one in found]


def _request_block(content: str) -> Block:
    block = next(blocks_of(_text(content)), None)
    if block is None or block.kind != "CERTIFICATE REQUEST":
        raise InvalidPEM("PEM block type must be CERTIFICATE REQUEST")
    return block


def check_request(content: str) -> None:
    """Check base64 text: a certificate request signed with its own key."""
    from cryptography import x509

    block = _request_block(content)
    try:
        request = x509.load_der_x509_csr(block.content)
        _check_key(request.public_key())
        signed = request.is_signature_valid
    except Exception as error:
        raise InvalidPEM(f"the certificate request cannot be read: {error}") from None
    if not signed:
        raise InvalidPEM("the signature of the certificate request is not by its own key")


def _check_key(key: object) -> None:
    """Refuse keys that Go does not support either: some of them block the event loop for 13 ms to verify a
    signature.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        if key.public_numbers().e >= _MAX_EXPONENT:
            raise InvalidPEM("the public exponent of its RSA key has more than 31 bits")
    elif not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        raise InvalidPEM("its key must be an RSA, ECDSA or Ed25519 key")


def why_no_authority(block: Block) -> str:
    """Return why a block is no certificate of an authority; empty if it is one."""
    from cryptography import x509

    if block.kind != "CERTIFICATE":
        return f"has bad block type: {block.kind}"
    if block.headers:
        return "has PEM block headers"
    try:
        extensions = x509.load_der_x509_certificate(block.content).extensions
    except ValueError:
        return "does not parse as X.509"
    try:
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    return "" if is_authority else "does not have the CA bit set"


class InvalidKey(ValueError):
    """A key that a pod certificate cannot be for: the part of the spec, the value that an error shows, and why."""

    def __init__(self, part: str, value: str | None, why: str) -> None:
        super().__init__(why)
        self.part, self.value, self.why = part, value, why


def check_public_key(content: bytes, signed: bytes, signature: bytes) -> None:
    """Check a key in PKIX form, and its signature of some bytes. Raises InvalidKey."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    part, digest = "pkixPublicKey", hashes.SHA256()
    try:
        key = serialization.load_der_public_key(content)
    except Exception:
        raise InvalidKey(part, None, "must be a valid PKIX-serialized public key") from None
    _check_pod_key(part, key, "P256 or P384")
    try:
        if isinstance(key, rsa.RSAPublicKey):
            pss = padding.PSS(padding.MGF1(digest), padding.PSS.AUTO)
            key.verify(signature, signed, pss, digest)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, signed, ec.ECDSA(digest))
        else:
            key.verify(signature, signed)  # type: ignore[union-attr, call-arg]
    except InvalidSignature:
        text = "could not verify proof-of-possession signature"
        raise InvalidKey("proofOfPossession", None, text) from None


def check_stub_request(content: bytes) -> None:
    """Check a PKCS#10 request in DER. Raises InvalidKey."""
    from cryptography import x509

    part = "stubPKCS10Request"
    try:
        request = x509.load_der_x509_csr(content)
        key = request.public_key()
    except Exception:
        raise InvalidKey(part, None, "must be a valid PKCS#10 CSR") from None
    _check_pod_key(part, key, "P256, P384, or P521")
    try:
        signed = request.is_signature_valid
    except Exception:
        signed = False
    if not signed:
        raise InvalidKey(part, None, "invalid signature")


def _check_pod_key(part: str, key: object, curves: str) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        bits = (key.key_size + 7) // 8 * 8
        if bits not in (3072, 4096):
            raise InvalidKey(part, f"{bits}-bit modulus", "RSA keys must have modulus size 3072 or 4096")
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1):
            shown = "curve P-224" if isinstance(key.curve, ec.SECP224R1) else f"curve {key.curve.name}"
            raise InvalidKey(part, shown, f"elliptic public keys must use curve {curves}")
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        raise InvalidKey(part, None, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")


class IssuedCertificate(NamedTuple):
    public_key: object
    dns_names: list[str]
    email_addresses: list[str]
    start: int  # microseconds since 1970
    end: int


def issued_certificate(chain: str) -> IssuedCertificate:
    """Return the first certificate of a chain. Raises InvalidPEM."""
    from cryptography import x509

    block = next(blocks_of(chain), None)
    if block is None:
        raise InvalidPEM("issued certificate chain must contain at least one certificate")
    if block.kind != "CERTIFICATE":
        raise InvalidPEM("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
    try:
        leaf = x509.load_der_x509_certificate(block.content)
        found = [one.value for one in leaf.extensions if isinstance(one.value, x509.SubjectAlternativeName)]
        names = found[0] if found else x509.SubjectAlternativeName([])
        return IssuedCertificate(
            leaf.public_key(),
            names.get_values_for_type(x509.DNSName),
            names.get_values_for_type(x509.RFC822Name),
            int(leaf.not_valid_before_utc.timestamp()) * 1_000_000,
            int(leaf.not_valid_after_utc.timestamp()) * 1_000_000,
        )
    except Exception:
        raise InvalidPEM("leaf certificate does not parse as valid X.509") from None


def has_key_of(leaf: IssuedCertificate, stub: bytes, key: bytes) -> bool:
    """Whether a certificate is for the key of a PKCS#10 request, or for a key in PKIX form."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    if stub:
        return bool(leaf.public_key == x509.load_der_x509_csr(stub).public_key())
    return bool(leaf.public_key == serialization.load_der_public_key(key))


def is_certificate(block: Block) -> bool:
    from cryptography import x509

    try:
        x509.load_der_x509_certificate(block.content)
    except Exception:
        return False
    return True


def check_certificates(content: str) -> None:
    """Check base64 text: one or more certificates and nothing else, or no text."""
    if not content:
        return
    from cryptography import x509

    blocks = list(blocks_of(_text(content)))
    for block in blocks:
        if block.kind != "CERTIFICATE":
            raise InvalidPEM(f"only CERTIFICATE PEM blocks are allowed, found {quoted_start(block.kind)}")
        if block.headers:
            raise InvalidPEM("no PEM block headers are permitted")
        try:
            x509.load_der_x509_certificate(block.content)
        except Exception as error:
            raise InvalidPEM(f"a certificate cannot be read: {error}") from None
    if not blocks:
        raise InvalidPEM("must contain at least one CERTIFICATE PEM block")


def why_no_pair(certificates: str, keys: str) -> str:
    """Return why the first of some certificates and the first key are no pair, as Go words it; empty if they are one.

    Both are base64 text of PEM blocks.
    """
    blocks, skipped = list(blocks_of(_text(certificates))), list[str]()
    found = [one for one in blocks if one.kind == "CERTIFICATE"]
    if not blocks:
        return "tls: failed to find any PEM data in certificate input"
    if not found and len(blocks) == 1 and blocks[0].kind.endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs "
            "may have been switched"
        )
    if not found:
        return (
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
            f"following types: [{' '.join(one.kind for one in blocks)}]"
        )
    for block in blocks_of(_text(keys)):
        if block.kind == "PRIVATE KEY" or block.kind.endswith(" PRIVATE KEY"):
            need_thread()  # parsing a key takes a millisecond, and importing the library 300
            return _why_no_pair(found[0].content, block.content)
        skipped.append(block.kind)
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if skipped == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of '
        f"the following types: [{' '.join(skipped)}]"
    )


def _why_no_pair(certificate: bytes, key: bytes) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except Exception:
        return "x509: malformed certificate"
    try:
        private = serialization.load_der_private_key(key, None)
    except Exception:
        return "tls: failed to parse private key"
    if isinstance(private, dsa.DSAPrivateKey):
        return "tls: failed to parse private key"
    own = private.public_key()
    kinds = rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey
    if not isinstance(own, kinds):
        return "tls: found unknown private key type in PKCS#8 wrapping"
    kind = next((one for one in kinds if isinstance(public, one)), None)
    if kind is None:
        return "tls: unknown public key algorithm"
    if not isinstance(own, kind):
        return "tls: private key type does not match public key type"
    return "" if own == public else "tls: private key does not match public key"


def _text(content: str) -> str:
    return base64.b64decode(content).decode("latin-1")

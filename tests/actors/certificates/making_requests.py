"""Makes keys and certificate requests for tests, as the base64 text of `spec.request`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NODE = (("O", "system:nodes"), ("CN", "system:node:n1"))
_OIDS = {
    "O": NameOID.ORGANIZATION_NAME,
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
}


@cache
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem() -> bytes:
    return key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True)
class Wanted:
    subject: Sequence[tuple[str, str]] = NODE
    names: Sequence[x509.GeneralName] | None = None
    extensions: Sequence[x509.ExtensionType] = ()

    def encoded(self) -> str:
        subject = x509.Name([x509.NameAttribute(_OIDS[kind], value) for kind, value in self.subject])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        if self.names is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName(self.names), critical=False)
        for extension in self.extensions:
            builder = builder.add_extension(extension, critical=True)
        request = builder.sign(key(), hashes.SHA256())
        return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()

"""Secrets of the type tls: a warning if key and certificate do not belong together (since 1.27)."""

from __future__ import annotations

import base64
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.time_limit import run_limited
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CURVE, OTHER, EDWARDS, EXCHANGE = (
    ec.generate_private_key(ec.SECP256R1()),
    ec.generate_private_key(ec.SECP256R1()),
    ed25519.Ed25519PrivateKey.generate(),
    x25519.X25519PrivateKey.generate(),
)


def pem(key: PrivateKeyTypes) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def certificate() -> str:
    name, start = x509.Name([]), datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder(name, name, CURVE.public_key(), 7, start, start.replace(year=2040))
    return builder.sign(CURVE, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


CERTIFICATE = certificate()
MANGLED = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
NO_KEY = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"


@cases(
    ("certificates", "key", "expected"),
    [
        (CERTIFICATE, pem(CURVE), ""),
        (pem(OTHER).replace("PRIVATE", "PUBLIC") + CERTIFICATE, CERTIFICATE + pem(CURVE), ""),
        ("x", pem(CURVE), "tls: failed to find any PEM data in certificate input"),
        (
            pem(CURVE),
            CERTIFICATE,
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs "
            "may have been switched",
        ),
        (
            pem(CURVE) * 2,
            "",
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
            "following types: [PRIVATE KEY PRIVATE KEY]",
        ),
        (CERTIFICATE, "x", "tls: failed to find any PEM data in key input"),
        (
            CERTIFICATE,
            CERTIFICATE,
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (
            CERTIFICATE,
            CERTIFICATE * 2,
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of '
            "the following types: [CERTIFICATE CERTIFICATE]",
        ),
        (MANGLED, pem(CURVE), "x509: malformed certificate"),
        (CERTIFICATE, NO_KEY, "tls: failed to parse private key"),
        (CERTIFICATE, pem(EXCHANGE), "tls: found unknown private key type in PKCS#8 wrapping"),
        (CERTIFICATE, pem(EDWARDS), "tls: private key type does not match public key type"),
        (CERTIFICATE, pem(OTHER), "tls: private key does not match public key"),
    ],
)
def test_key_and_certificate_belong_together(certificates: str, key: str, expected: str) -> None:
    secrets = Definitions(built_in(KUBERNETES, choose_release("1.36")))["secrets"]
    data = {"tls.crt": certificates, "tls.key": key}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    assert secrets.strategy.warnings is not None
    new = {"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "data": encoded}
    assert run_limited(secrets.strategy.warnings, new, None) == ([expected] if expected else [])
    assert secrets.strategy.warnings({**new, "type": "Opaque"}, None) == []


def test_no_warning_before_1_27() -> None:
    assert Definitions(built_in(KUBERNETES, choose_release("1.26")))["secrets"].strategy.warnings is None

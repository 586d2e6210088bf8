"""ClusterTrustBundle: names by signer, and certificates of authorities."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions

PLURAL = "clustertrustbundles"


@pytest.fixture(scope="module")
def kinds() -> Definitions:
    release = choose_release("1.36", "ClusterTrustBundle=true")
    return Definitions(built_in(KUBERNETES, release, Enablement(every=True)))


def certificate(*, authority: bool) -> str:
    key, name = ed25519.Ed25519PrivateKey.generate(), x509.Name([])
    start = datetime.datetime(2020, 1, 1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, start, start.replace(year=2040))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(key, None)
    )
    return made.public_bytes(Encoding.PEM).decode()


def bundle(text: str, name: str = "a", signer: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": text}}


def test_trust_anchors_are_certificates_of_authorities(kinds: Definitions) -> None:
    valid = certificate(authority=True)
    assert kinds.create_causes(PLURAL, bundle(valid)) == []
    prefix = 'Invalid value: "<value omitted>": '
    for text, why in (
        ("", "at least one trust anchor must be provided"),
        (valid + certificate(authority=False), "entry 1 does not have the CA bit set"),
        (valid.replace("CERTIFICATE", "KEY"), "entry 0 has bad block type: KEY"),
        (valid + valid, "duplicate trust anchor (indices [0 1])"),
    ):
        assert kinds.create_causes(PLURAL, bundle(text)) == [("spec.trustBundle", prefix + why)]


def test_name_begins_with_the_signer(kinds: Definitions) -> None:
    valid, signer = certificate(authority=True), "example.com/one"
    assert kinds.create_causes(PLURAL, bundle(valid, "example.com:one:a", signer)) == []
    ((field, text),) = kinds.create_causes(PLURAL, bundle(valid, "a", signer))
    assert field == "metadata.name"
    assert text.endswith("for signerName example.com/one must be named with prefix example.com:one:")
    assert kinds.create_causes(PLURAL, bundle(valid, "x:a"))[0][0] == "metadata.name"

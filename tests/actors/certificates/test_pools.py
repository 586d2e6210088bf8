from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

import rewound.actors.certificates.pools as module
from rewound.actors.certificates.pki import CertificateError
from rewound.actors.certificates.pools import NO_ROLES, Roles, TrustPools
from tests.issuers import Issuer, bundle, issuer

CLIENT, PROXY = Roles(client=True, proxy=False), Roles(client=False, proxy=True)


def der(one: Issuer) -> bytes:
    return one.certificate.public_bytes(Encoding.DER)


def test_roles_of_a_resumed_session_are_those_of_the_certificate() -> None:
    pools = TrustPools([issuer("clients").file], issuer("proxies").file)
    assert pools.of(b"a", [b"a", der(issuer("clients"))]) == CLIENT
    assert pools.of(b"b", [b"b", der(issuer("proxies"))]) == PROXY
    assert (pools.of(b"a", []), pools.of(b"b", []), pools.of(b"unknown", [])) == (CLIENT, PROXY, NO_ROLES)


def test_ca_nearest_to_the_certificate_decides() -> None:
    """Even if a chain continues above a trusted CA; OpenSSL's chains end there."""
    pools = TrustPools([issuer("clients").file], issuer("proxies").file)
    clients, proxies = der(issuer("clients")), der(issuer("proxies"))
    assert pools.of(b"a", [b"a", b"sent by the client", clients, proxies]) == CLIENT
    assert pools.of(b"a", [b"a", proxies, clients]) == PROXY


def test_chain_without_a_known_ca_has_no_role() -> None:
    pools = TrustPools([issuer("clients").file], issuer("proxies").file)
    assert pools.of(b"a", [b"a", der(issuer("both"))]) == NO_ROLES


def test_issuer_decides_where_the_chain_is_unknown() -> None:
    below = issuer("clients").intermediate("department")
    pools = TrustPools([bundle(issuer("clients"), below)], issuer("proxies").file)

    def roles(one: Issuer) -> Roles:
        return pools.of(
            load_pem_x509_certificate(one.leaf("a").read_bytes()).public_bytes(Encoding.DER), None
        )

    assert roles(issuer("clients")) == roles(below) == CLIENT
    assert roles(issuer("proxies")) == PROXY
    assert roles(issuer("both")) == roles(issuer("proxies").intermediate("unknown")) == NO_ROLES
    assert pools.of(der(issuer("proxies")), None) == PROXY
    same_name = issuer("clients").intermediate("x")  # a forged issuer: the right name with the wrong key
    forged = Issuer(issuer("clients").certificate, same_name.key, same_name.file)
    assert roles(forged) == NO_ROLES


def test_remembered_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    pools = TrustPools([issuer("clients").file], issuer("proxies").file)
    for name in (b"a", b"b", b"b", b"c"):
        pools.of(name, [der(issuer("clients"))])
    assert [pools.of(name, []) for name in (b"a", b"b", b"c")] == [NO_ROLES, CLIENT, CLIENT]


def test_ca_is_its_name_and_key() -> None:
    renewed = issuer("clients").renewed()
    pools = TrustPools([bundle(issuer("clients"))], renewed.file)
    assert pools.of(b"a", [der(issuer("clients"))]) == pools.of(b"a", [der(renewed)]) == Roles(True, True)


def test_error_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for name in ("bad.pem", "nowhere.pem"):
        with pytest.raises(CertificateError, match=name):
            TrustPools([issuer("clients").file], tmp_path / name)

"""A sealed key for service account tokens can be opened only with the CA that sealed it, for its cluster and its id."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rewound.actors.access.accounts.keys import AccountKeyError
from rewound.actors.access.accounts.sealing import CannotOpen, seal, unseal

CLUSTER = b"cluster".ljust(16)
PEM = b"-----BEGIN PRIVATE KEY-----"


def authority(path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return path


def test_sealed_key_opens_only_as_it_was_sealed(tmp_path: Path) -> None:
    own, other = authority(tmp_path / "ca.key"), authority(tmp_path / "other.key")
    sealed = seal(PEM, own, CLUSTER, "id")
    assert PEM not in sealed and seal(PEM, own, CLUSTER, "id") != sealed
    assert unseal(sealed, own, CLUSTER, "id") == PEM
    changed = sealed[:-1] + bytes((sealed[-1] ^ 1,))
    for given in (
        (sealed, other, CLUSTER, "id"),
        (sealed, own, CLUSTER[::-1], "id"),
        (sealed, own, CLUSTER, "another"),
        (changed, own, CLUSTER, "id"),
        (b"", own, CLUSTER, "id"),
    ):
        with pytest.raises(CannotOpen):
            unseal(*given)


def test_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.key"
    path.write_bytes(b"junk")
    with pytest.raises(AccountKeyError, match=str(path)):
        seal(PEM, path, CLUSTER, "id")

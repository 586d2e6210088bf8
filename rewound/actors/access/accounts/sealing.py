"""Encrypts the key of service account tokens, so that read access to etcd does not reveal it.

The secret is the private key of the cluster's CA, which all nodes have in their data folders and which is never in
etcd: whoever has that key can issue an administrator's certificate anyway. AES-256-GCM with a key that HKDF derives
from it. The ids of the cluster and of the key are authenticated, so that nobody can substitute the sealed key of
another cluster.

    sealed    nonce:12 ciphertext and tag
"""

from __future__ import annotations

from os import urandom
from pathlib import Path
from typing import Any, Final

from rewound.actors.access.accounts.keys import AccountKeyError

_PURPOSE: Final = b"rewound: key of service account tokens"
_NONCE_BYTES: Final = 12


class CannotOpen(Exception):
    """It was sealed with another CA, for another cluster, or it was modified."""


def seal(pem: bytes, authority: Path, cluster_id: bytes, key_id: str) -> bytes:
    """Encrypt a key. `authority`: the file with the CA's private key. Raises AccountKeyError if it is unreadable."""
    nonce = urandom(_NONCE_BYTES)
    encrypted: bytes = _cipher(authority, cluster_id).encrypt(nonce, pem, key_id.encode())
    return nonce + encrypted


def unseal(sealed: bytes, authority: Path, cluster_id: bytes, key_id: str) -> bytes:
    """Decrypt a sealed key. Raises CannotOpen, or AccountKeyError if the CA's key is unreadable."""
    from cryptography.exceptions import InvalidTag

    cipher = _cipher(authority, cluster_id)
    try:
        pem: bytes = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], key_id.encode())
    except (InvalidTag, ValueError) as error:
        raise CannotOpen from error
    return pem


def _cipher(authority: Path, cluster_id: bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        private = serialization.load_pem_private_key(authority.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise AccountKeyError(
            f"the key of the CA in {authority} cannot be read ({error}); restore it from a backup"
        ) from error
    secret = private.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return AESGCM(HKDF(hashes.SHA256(), 32, salt=cluster_id, info=_PURPOSE).derive(secret))

"""Key files for service account tokens: which formats are read, and what is refused."""

from __future__ import annotations

import datetime
import fcntl
import stat
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from rewound.actors.access.accounts.keys import AccountKeyError, KeyFiles, Keys, check_own_key, load_keys
from rewound.actors.certificates.pki import one_process_at_a_time

RSA = rsa.generate_private_key(65537, 2048)
ECDSA = ec.generate_private_key(ec.SECP521R1())

PEM, PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()
TRADITIONAL = serialization.PrivateFormat.TraditionalOpenSSL


def certificate() -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "keys")])
    start = datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.public_key(RSA.public_key()).not_valid_before(start)
    signed = builder.not_valid_after(start + datetime.timedelta(days=1)).sign(RSA, hashes.SHA256())
    return signed.public_bytes(PEM)


def loaded(folder: Path, content: bytes) -> Keys:
    path = folder / "accepted.pem"
    path.write_bytes(content)
    return load_keys(KeyFiles(folder / "sa.key", accepted=(path,)))


@pytest.mark.parametrize(
    ("content", "algorithm"),
    [
        (RSA.private_bytes(PEM, TRADITIONAL, PLAIN), "RS256"),
        (RSA.private_bytes(PEM, serialization.PrivateFormat.PKCS8, PLAIN), "RS256"),
        (RSA.public_key().public_bytes(PEM, serialization.PublicFormat.PKCS1), "RS256"),
        (RSA.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo), "RS256"),
        (certificate(), "RS256"),
        (
            b"-----BEGIN EC PARAMETERS-----\nBgUrgQQAIw==\n-----END EC PARAMETERS-----\n"
            + ECDSA.private_bytes(PEM, TRADITIONAL, PLAIN),
            "ES512",
        ),
    ],
    ids=["pkcs1", "pkcs8", "pkcs1-public", "public", "certificate", "ec-parameters"],
)
def test_every_pem_format_of_a_key_is_read(tmp_path: Path, content: bytes, algorithm: str) -> None:
    keys = loaded(tmp_path, content)
    assert [key.algorithm for key in keys.verifying] == ["ES256", algorithm]
    assert keys.signing.public is keys.verifying[0]
    private = RSA if algorithm == "RS256" else ECDSA
    assert keys.verifying[1].key == private.public_key()


def test_same_key_in_two_forms_is_one_key(tmp_path: Path) -> None:
    public = RSA.public_key().public_bytes(PEM, serialization.PublicFormat.PKCS1)
    keys = loaded(tmp_path, public + RSA.private_bytes(PEM, TRADITIONAL, PLAIN))
    assert len(keys.verifying) == 2


def test_refused_key_file_leaves_no_own_key(tmp_path: Path) -> None:
    with pytest.raises(AccountKeyError, match=r"--service-account-key-file: .* contains no RSA or ECDSA key"):
        loaded(tmp_path, b"nonsense")
    assert not (tmp_path / "sa.key").exists()


def test_locked_key_is_refused(tmp_path: Path) -> None:
    locked = RSA.private_bytes(PEM, TRADITIONAL, serialization.BestAvailableEncryption(b"secret"))
    with pytest.raises(AccountKeyError, match="encrypted with a password"):
        loaded(tmp_path, locked)


def test_public_key_cannot_sign(tmp_path: Path) -> None:
    path = tmp_path / "public.pem"
    path.write_bytes(RSA.public_key().public_bytes(PEM, serialization.PublicFormat.PKCS1))
    with pytest.raises(AccountKeyError, match=r"--service-account-signing-key-file: .* no private key"):
        load_keys(KeyFiles(tmp_path / "sa.key", signing=path))


def test_own_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path / "pki" / "sa.key")
    first, second = load_keys(files), load_keys(files)
    assert first.signing.public.id == second.signing.public.id
    assert stat.S_IMODE(files.own.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.own.parent.stat().st_mode) == 0o700


def test_damaged_own_key_is_not_replaced(tmp_path: Path) -> None:
    own = tmp_path / "sa.key"
    own.write_bytes(b"damaged")
    with pytest.raises(AccountKeyError, match=r"contains no private key.*restore .* from a backup"):
        load_keys(KeyFiles(own))
    assert own.read_bytes() == b"damaged"


@pytest.mark.parametrize(
    "content", [b"", b"damaged", b"-----BEGIN PRIVATE KEY-----\n?\n-----END PRIVATE KEY-----\n"]
)
def test_visibly_damaged_own_key_is_found_without_the_library(tmp_path: Path, content: bytes) -> None:
    own = tmp_path / "sa.key"
    check_own_key(own)
    own.write_bytes(content)
    with pytest.raises(AccountKeyError, match=r"restore .* from a backup, or remove it"):
        check_own_key(own)


@pytest.mark.parametrize("lines", [1, 2])
def test_own_key_that_lost_lines_is_damaged(tmp_path: Path, lines: int) -> None:
    own = tmp_path / "sa.key"
    load_keys(KeyFiles(own))
    check_own_key(own)
    whole = own.read_bytes().splitlines(keepends=True)
    own.write_bytes(b"".join(whole[:1] + whole[1 + lines :]))
    with pytest.raises(AccountKeyError, match=r"restore .* from a backup, or remove it"):
        check_own_key(own)


def test_every_form_of_private_key_is_whole(tmp_path: Path) -> None:
    own = tmp_path / "sa.key"
    for form in (TRADITIONAL, serialization.PrivateFormat.PKCS8):
        own.write_bytes(RSA.private_bytes(PEM, form, PLAIN))
        check_own_key(own)


def test_two_processes_that_start_at_once_have_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one waits for the first, and uses its key."""
    other = load_keys(KeyFiles(tmp_path / "other" / "sa.key"))
    path = tmp_path / "pki" / "sa.key"
    path.parent.mkdir()
    waits, lock = threading.Event(), fcntl.flock
    loaded: list[Keys] = []
    second = threading.Thread(target=lambda: loaded.append(load_keys(KeyFiles(path))))
    with one_process_at_a_time(path.parent):

        def flock(descriptor: int, operation: int) -> None:
            waits.set()
            lock(descriptor, operation)

        monkeypatch.setattr(fcntl, "flock", flock)
        second.start()
        assert waits.wait(60)
        path.write_bytes((tmp_path / "other" / "sa.key").read_bytes())
    second.join(60)
    assert [one.signing.public.id for one in loaded] == [other.signing.public.id]

"""The keys of service account tokens: one signs, all of them verify; and the discovery documents for relying parties.

The server signs with its own key in the data folder (`pki/sa.key`, 0600), or with that of
--service-account-signing-key-file. It also accepts the keys of --service-account-key-file, or, without any, that of
--tls-private-key-file. It loads its own key in a thread when the first token needs it, so that the start stays short.
It loads keys from flags and the shared key of a cluster's nodes at start, so that a mistake in a file stops the start.
A visibly damaged own key stops it, too.

The own key is ECDSA P-256: it is created in 0.2 ms (RSA 2048: 50 to 300 ms, with pauses of 12 ms for all requests) and
signs in 0.1 ms (RSA: 1.4 ms). Relying parties that support only RS256 need --service-account-signing-key-file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import orjson
import trio

from rewound.actors.access.token_json import object_of
from rewound.actors.certificates.pki import one_process_at_a_time, write_atomically
from rewound.actors.errors import KeysUnusable
from rewound.actors.golang.json import dumps
from rewound.actors.runtime.background_import import imported
from rewound.journal.files.private import private_folder

logger = logging.getLogger(__name__)

LEAST_RSA_BITS = 2048
RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
CURVE_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class AccountKeyError(Exception):
    """A key file cannot be used; the text says what to do."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    id: str  # the `kid` of tokens
    key: Any = field(repr=False)  # a public key of the `cryptography` library
    algorithm: str  # the one that its owner signs with
    accepted: frozenset[str]  # the algorithms that signatures by this key may have


@dataclass(frozen=True, slots=True)
class SigningKey:
    public: VerifyingKey
    key: Any = field(repr=False)

    @property
    def is_slow(self) -> bool:
        """Whether a signature takes so long that it is computed in a thread."""
        return not self.public.algorithm.startswith("ES")


class Keys(msgspec.Struct, frozen=True):
    signing: SigningKey
    verifying: tuple[VerifyingKey, ...]
    by_id: Mapping[str, VerifyingKey]

    def candidates(self, key_id: object) -> Sequence[VerifyingKey]:
        """The keys that may have made a signature: the one that the token names, otherwise all."""
        named = self.by_id.get(key_id) if isinstance(key_id, str) else None
        return self.verifying if named is None else (named,)


class KeyFiles(msgspec.Struct, frozen=True):
    own: Path  # created if it is missing and needed
    signing: Path | None = None  # replaces the own key
    accepted: tuple[Path, ...] = ()
    fallback: Path | None = None  # accepted if `accepted` is empty
    is_shared: bool = False  # the own key is shared by all nodes of a cluster and must not be replaced

    @property
    def loaded_at_start(self) -> bool:
        """Whether the keys come from flags or are shared by a cluster."""
        return self.signing is not None or bool(self.accepted) or self.is_shared


class AccountKeys:
    def __init__(self, files: KeyFiles) -> None:
        self._files = files
        self._lock = trio.Lock()
        self._logged = ""  # the last logged error: any client can send tokens that need the keys
        self.current: Keys | None = None  # None until a token needs them

    def load(self) -> Keys:
        """Load the keys at once, for the start, when no request waits."""
        import jwt  # noqa: F401 - loads it before the first token

        self.current = load_keys(self._files)
        return self.current

    async def get(self) -> Keys:
        """The keys; loads them first if needed. Raises KeysUnusable if that fails; the log has the reason."""
        if self.current is None:
            async with self._lock:
                await imported("jwt")
                if self.current is None:
                    self.current = await self._loaded()
        return self.current

    async def _loaded(self) -> Keys:
        try:
            return await trio.to_thread.run_sync(load_keys, self._files)
        except AccountKeyError as error:
            if self._logged != str(error):
                self._logged = str(error)
                logger.error("no service account token can be signed or verified: %s", error)
            raise KeysUnusable from error


def load_keys(files: KeyFiles) -> Keys:
    """Read all files, and create the server's own key if it is missing."""
    accepted = [
        one for path in files.accepted for one in _given_keys(path)
    ]  # first, because these may be rejected
    signing = _own_key(files.own) if files.signing is None else _given_signing_key(files.signing)
    verifying = {signing.public.id: signing.public}
    verifying.update({one.id: one for one in accepted})
    if not files.accepted and files.fallback is not None:
        verifying.update({one.id: one for one in _fallback_keys(files.fallback)})
    return Keys(signing, tuple(verifying.values()), verifying)


def _given_signing_key(path: Path) -> SigningKey:
    try:
        return _signing_key(_read(path), path)
    except AccountKeyError as error:
        raise AccountKeyError(f"--service-account-signing-key-file: {error}") from error


def _given_keys(path: Path) -> Sequence[VerifyingKey]:
    try:
        found = list(_public_keys(_read(path), path))
    except AccountKeyError as error:
        raise AccountKeyError(f"--service-account-key-file: {error}") from error
    if not found:
        raise AccountKeyError(
            f"--service-account-key-file: {path} contains no RSA or ECDSA key in PEM form; give a file that does"
        )
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccountKeyError(f"cannot read the key file {path}: {error.strerror}") from error


def check_own_key(path: Path) -> None:
    """Reject a visibly damaged key: truncated, or no key. Does not use the library, whose import takes too long."""
    if not path.exists():
        return
    with _with_repair_advice(path):
        for label, block in _blocks(_read(path)):
            if label.endswith("PRIVATE KEY") and _is_whole(block):
                return
        raise AccountKeyError(f"{path} contains no private key in PEM form")


def _is_whole(block: bytes) -> bool:
    """Whether the text between the two lines is a DER sequence of the stated length."""
    try:
        der = base64.b64decode(b"".join(block.split(b"\n")[1:-2]), validate=True)
    except ValueError:
        return False
    if len(der) < 4 or der[0] != 0x30:
        return False
    more = der[1] - 0x80 if der[1] > 0x80 else 0  # number of bytes of a long length
    length = int.from_bytes(der[2 : 2 + more], "big") if more else der[1]
    return len(der) == 2 + more + length


@contextmanager
def _with_repair_advice(path: Path) -> Iterator[None]:
    try:
        yield
    except AccountKeyError as error:
        raise AccountKeyError(
            f"the server's own key of service account tokens: {error}; restore {path} from a backup, "
            "or remove it for a new key, which ends all tokens that were issued before"
        ) from error


def _own_key(path: Path) -> SigningKey:
    if not path.exists():
        write_own_key(path)
    with _with_repair_advice(path):
        return _signing_key(_read(path), path)


def write_own_key(path: Path, pem: bytes = b"") -> None:
    """Store this key, or a new one, unless there is one already. Raises AccountKeyError if it cannot be written."""
    try:
        private_folder(path.parent)
        with one_process_at_a_time(path.parent):
            if not path.exists():  # otherwise another process of the server has created it
                write_atomically(path, pem or new_key(), 0o600)
                logger.info("the signing key of service account tokens is now in %s", path)
    except OSError as error:
        raise AccountKeyError(
            f"cannot keep the key of service account tokens in {path}: {error.strerror}; make the folder writable"
        ) from error


def new_key() -> bytes:
    """A new private key in PEM form."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_id(pem: bytes, path: Path) -> str:
    """The `kid` of tokens that a private key signs. `path`: where it is or will be. Raises AccountKeyError."""
    return _signing_key(pem, path).public.id


def _signing_key(pem: bytes, path: Path) -> SigningKey:
    for label, block in _blocks(pem):
        if label.endswith("PRIVATE KEY"):
            private = _private_key(block, path)
            return SigningKey(_verifying_key(private.public_key(), path), private)
    raise AccountKeyError(f"{path} contains no private key in PEM form; give one that signs tokens")


def _public_keys(pem: bytes, path: Path) -> Iterator[VerifyingKey]:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    for label, block in _blocks(pem):
        public: Any
        try:
            if label.endswith("PRIVATE KEY"):
                public = _private_key(block, path).public_key()
            elif label.endswith("PUBLIC KEY"):
                public = serialization.load_pem_public_key(block)
            elif label == "CERTIFICATE":
                public = x509.load_pem_x509_certificate(block).public_key()
            else:
                continue
        except (ValueError, UnsupportedAlgorithm) as error:
            raise AccountKeyError(f"{path} contains a key that cannot be read; check the file") from error
        yield _verifying_key(public, path)


def _fallback_keys(path: Path) -> Sequence[VerifyingKey]:
    """None if the key of the secure port has another type, because no flag names it for tokens."""
    try:
        return list(_public_keys(_read(path), path))
    except AccountKeyError:
        return ()


def _blocks(pem: bytes) -> Iterator[tuple[str, bytes]]:
    for found in _BLOCK.finditer(pem):
        yield found[1].decode("ascii"), found[0] + b"\n"


def _private_key(block: bytes, path: Path) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_pem_private_key(block, None)
    except TypeError:
        raise AccountKeyError(f"the key in {path} is encrypted with a password; give one without") from None
    except (ValueError, UnsupportedAlgorithm):
        raise AccountKeyError(f"the key in {path} cannot be read; give an RSA or ECDSA key (PEM)") from None


def _verifying_key(public: Any, path: Path) -> VerifyingKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(public, rsa.RSAPublicKey):
        if public.key_size < LEAST_RSA_BITS:
            raise AccountKeyError(
                f"the RSA key in {path} has {public.key_size} bits; give one of at least {LEAST_RSA_BITS}"
            )
        algorithm, accepted = "RS256", RSA_ALGORITHMS
    elif isinstance(public, ec.EllipticCurvePublicKey) and public.curve.name in CURVE_ALGORITHMS:
        algorithm = CURVE_ALGORITHMS[public.curve.name]
        accepted = frozenset({algorithm})
    else:
        raise AccountKeyError(
            f"the key in {path} is neither RSA nor ECDSA on the curves P-256, P-384 or P-521"
        )
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    key_id = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    return VerifyingKey(key_id, public, algorithm, accepted)


_TOKEN = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


@cache
def _jws() -> Any:
    import jwt

    return jwt.PyJWS()


def sign(key: SigningKey, claims: Mapping[str, Any]) -> str:
    """Sign a JSON Web Token with a service account key.

    The key decides which algorithms are accepted, never the token: `none` and HMAC fit no key, and the headers by which
    a token could bring its own key (jwk, jku, x5u, x5c) are not read. The library must already be imported
    (`AccountKeys` does that).
    """
    import jwt

    # As Kubernetes writes it: without `typ`.
    headers: dict[str, Any] = {"kid": key.public.id, "typ": None}
    return jwt.encode(dict(claims), key.key, algorithm=key.public.algorithm, headers=headers)


def unverified_issuer(token: bytes) -> str | None:
    """The claim `iss`, which decides who verifies the token; None if it is no JSON Web Token."""
    parts = _TOKEN.fullmatch(token)
    decoded = None if parts is None else _decoded(parts[2])
    try:
        claims = None if decoded is None else orjson.loads(decoded)
    except orjson.JSONDecodeError:
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None


def verified_claims(token: bytes, keys: Keys) -> dict[str, Any] | None:
    """The claims of a token that one of the keys has signed, otherwise None."""
    import jwt

    parts = _TOKEN.fullmatch(token)
    header = None if parts is None else _json_object(parts[1])
    if parts is None or header is None or "crit" in header or "b64" in header:
        return None  # an unknown extension could change the meaning of the token
    if not isinstance(header.get("kid"), str | None):
        return None
    if not _is_canonical(parts[3]):
        return None
    algorithm = header.get("alg")
    for key in keys.candidates(header.get("kid")):
        if not isinstance(algorithm, str) or algorithm not in key.accepted:
            continue
        try:
            payload = _jws().decode(token, key.key, algorithms=[algorithm])
        except (jwt.PyJWTError, ValueError, RecursionError):  # releases before 2.14 recurse into the header
            continue
        return object_of(payload)
    return None


def _is_canonical(segment: bytes) -> bool:
    """Whether the unused bits of the last character are zero, so that one signature has one text."""
    decoded = _decoded(segment)
    return decoded is not None and base64.urlsafe_b64encode(decoded).rstrip(b"=") == segment


def _json_object(segment: bytes) -> dict[str, Any] | None:
    decoded = _decoded(segment)
    return None if decoded is None else object_of(decoded)


def _decoded(segment: bytes) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))
    except (binascii.Error, ValueError):
        return None


CONFIGURATION_PATH, KEYS_PATH = "/.well-known/openid-configuration", "/openid/v1/jwks"


def is_discoverable(issuer: str) -> bool:
    """Whether OpenID allows such an issuer; documents are served only for these."""
    try:
        parts = urlsplit(issuer)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc) and not parts.query and not parts.fragment


def configuration(issuer: str, keys_url: str, keys: Keys) -> bytes:
    """The OpenID configuration; together with the key set, relying parties verify service account tokens by it."""
    return dumps(
        {
            "issuer": issuer,
            "jwks_uri": keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({one.algorithm for one in keys.verifying}),
        }
    )


def key_set(keys: Keys) -> bytes:
    return dumps({"keys": [_public_jwk(one) for one in keys.verifying]})


def _public_jwk(key: VerifyingKey) -> dict[str, str]:
    numbers: Any = key.key.public_numbers()
    if key.algorithm.startswith("ES"):
        size = (key.key.curve.key_size + 7) // 8
        curve = f"P-{key.key.curve.key_size}"
        parameters = {
            "kty": "EC",
            "crv": curve,
            "x": _base64(numbers.x.to_bytes(size, "big")),
            "y": _base64(numbers.y.to_bytes(size, "big")),
        }
    else:
        parameters = {"kty": "RSA", "n": _base64(_shortest(numbers.n)), "e": _base64(_shortest(numbers.e))}
    return {"use": "sig", "kid": key.id, "alg": key.algorithm, **parameters}


def _shortest(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

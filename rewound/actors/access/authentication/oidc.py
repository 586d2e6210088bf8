"""OpenID Connect: the bearer token is an ID token signed by an identity provider. `issuers` has several of them.

The issuer is read before anything is verified, so that tokens of others pass on to the next method at once. A verified
token is cached by its digest until it expires or the provider's keys change, so that a repeated one costs a hash and a
lookup. The log has the reason why a token was rejected, each once in ten seconds, because any client can send tokens;
TokenReviews have the reason, too. It has nothing of the token, but the error of an expression may quote a claim.

Expressions are evaluated on the event loop until they take too long for it; then, and for large tokens, in a thread.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time
from typing import Any, Final, NamedTuple

import orjson
import trio
from msgspec.structs import replace

from rewound.actors.access.authentication.authenticate import Authenticated, Refused
from rewound.actors.access.authentication.oidc_claims import ClaimRules
from rewound.actors.access.authorization.statistics import Durations
from rewound.actors.access.remote.calls import Calls, DocumentError
from rewound.actors.access.token_json import BadClaims, object_of
from rewound.actors.certificates.trust import verifying
from rewound.actors.errors import TooLarge
from rewound.actors.identity import User
from rewound.actors.runtime.background_import import imported
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.time_limit import NeedsThread, run_limited

logger = logging.getLogger(__name__)

# Tokens of this many users at once need no new check of the signature; about 1 kB each.
MAX_VERIFIED = 4096
LATENCY_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
SUCCESS, FAILURE = "success", "failure"
_LOG_PAUSE = 10.0
_MAX_REASONS = 200  # in the table of what was logged
_LARGE: Final = 32 * 1024  # bytes of a token whose claims are read in a thread, if there are expressions
_EXPRESSION_SECONDS: Final = 2.0  # of processor time for all expressions of a token


class _Verified(NamedTuple):
    expires: float
    result: Authenticated


class OidcTokens:
    def __init__(
        self,
        rules: ClaimRules,
        provider: Provider,
        algorithms: Sequence[str],
        clock: Clock,
        api_audiences: Sequence[str] = (),
    ) -> None:
        """`api_audiences` are those of this server: a TokenReview may name them."""
        self._rules = rules
        self._provider = provider
        self._algorithms = tuple(algorithms)
        self._clock = clock
        self._api_audiences = frozenset(api_audiences)
        self._verified: dict[bytes, _Verified] = {}
        self._keys_version = 0
        self._logged: dict[str, float] = {}  # when each reason for a rejection was last logged
        self._distributed = DistributedClaims(rules, provider)
        self.latencies: dict[str, Durations] = {}  # of verifications, by result

    def authenticate(
        self, token: bytes, audiences: tuple[str, ...]
    ) -> Authenticated | Awaitable[Authenticated | Refused] | None:
        granted = tuple(one for one in audiences if one in self._api_audiences) if audiences else ()
        if audiences and not granted:
            return None
        if self._keys_version != self._provider.version:
            self._forget()
        digest = hashlib.blake2b(token, digest_size=32).digest()  # half the time of SHA-256
        known = self._verified.get(digest)
        if known is not None and known.expires > self._now():
            return known.result if not granted else Authenticated(known.result.user, audiences=granted)
        if not self._rules.is_issuer(unverified_issuer(token)):
            return None
        return self._verify(token, digest, granted)

    async def _verify(self, token: bytes, digest: bytes, granted: tuple[str, ...]) -> Authenticated | Refused:
        began = trio.current_time()
        try:
            claims = await claims_of(token, self._provider, self._algorithms)
            expires = self._rules.expiry(claims, self._now())
            if await self._distributed.expand(claims, self._algorithms, self._now):
                expires = min(expires, self._now() + DISTRIBUTED_SECONDS)
            user = await self._user(claims, len(token))
        except (BadSignature, BadClaims, ProviderError) as error:
            self._took(FAILURE, began)
            self._log(str(error))
            return Refused(f"oidc: {error}")
        self._took(SUCCESS, began)
        result = Authenticated(user.with_authenticated_group())
        self._keep(digest, _Verified(expires, result))
        return result if not granted else Authenticated(result.user, audiences=granted)

    async def _user(self, claims: dict[str, Any], size: int) -> User:
        if self._rules.expressions is None or size <= _LARGE:
            try:
                return self._rules.user(claims)
            except NeedsThread:
                pass
        try:
            return await trio.to_thread.run_sync(
                lambda: run_limited(self._rules.user, claims, seconds=_EXPRESSION_SECONDS)
            )
        except TooLarge:
            raise BadClaims("the expressions take too long for these claims") from None

    def _took(self, result: str, began: float) -> None:
        durations = self.latencies.setdefault(result, Durations(LATENCY_BOUNDS))
        durations.add(trio.current_time() - began)

    def _forget(self) -> None:
        """Clear the cache after the keys have changed: the key of a verified token may be gone."""
        self._keys_version = self._provider.version
        self._verified.clear()

    def _keep(self, digest: bytes, verified: _Verified) -> None:
        if self._keys_version != self._provider.version:
            self._forget()
        if len(self._verified) >= MAX_VERIFIED:
            now = self._now()
            self._verified = {key: one for key, one in self._verified.items() if one.expires > now}
        while len(self._verified) >= MAX_VERIFIED:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = verified

    def _log(self, reason: str) -> None:
        """Log a reason. Some have an unlimited number of texts."""
        now = self._now()
        if len(self._logged) >= _MAX_REASONS:
            self._logged.clear()
        if now >= self._logged.get(reason, 0) + _LOG_PAUSE:
            self._logged[reason] = now
            logger.info("an ID token was rejected: %s", reason)

    def _now(self) -> float:
        return self._clock.now() / 1_000_000


async def claims_of(token: bytes, provider: Provider, algorithms: Sequence[str]) -> dict[str, Any]:
    """The claims of a token. If no known key of the provider has signed it, the keys are fetched again."""
    await imported("jwt")
    header = token_header(token, algorithms)
    fetches = provider.fetches
    claims = verified_claims(token, header, provider.keys)
    if claims is None and await provider.refresh(fetches):
        claims = verified_claims(token, header, provider.keys)
    if claims is None:
        raise BadSignature("no known key of the provider has signed the token")
    return claims


def unverified_issuer(token: bytes) -> str | None:
    """The issuer that a token names; None if it is no JWT."""
    parts = token.split(b".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None


DISTRIBUTED_SECONDS: Final = 10.0  # that a token with claims of another endpoint is cached
MAX_CLAIM_ISSUERS: Final = 16  # issuers of such claims, of one issuer of tokens


class DistributedClaims:
    """The groups of a token that are not in it: it names an endpoint that returns them, in a token of their own.

        "_claim_names": {"groups": "src1"},
        "_claim_sources": {"src1": {"endpoint": "https://directory.example.com/groups", "access_token": "..."}}

    The issuer of that token is any with a discovery document over HTTPS, as in Kubernetes: the provider that signed the
    first token chose the endpoint. Only the groups claim can be there.
    """

    def __init__(self, rules: ClaimRules, provider: Provider) -> None:
        self._rules, self._provider = rules, provider
        self._providers = {rules.issuer: provider}

    async def expand(
        self, claims: dict[str, Any], algorithms: Sequence[str], now: Callable[[], float]
    ) -> bool:
        """Add the groups to the claims, if they are elsewhere. Raises BadClaims, BadSignature and ProviderError."""
        claim = self._rules.groups_claim
        if not claim or claim in claims or claims.get("_claim_names") is None:
            return False
        endpoint, access_token = _endpoint(claims, claim)
        if not endpoint:
            return False
        try:
            token = await self._provider.fetch(endpoint, access_token)
            found = await claims_of(token, self._provider_of(unverified_issuer(token)), algorithms)
            replace(self._rules, issuer=str(found.get("iss"))).expiry(found, now())
        except (BadClaims, BadSignature, ProviderError) as error:
            raise BadClaims(f"could not expand distributed claims: {error}") from None
        if claim not in found:
            raise BadClaims(f"could not expand distributed claims: the response has no claim {claim}")
        claims[claim] = found[claim]
        return True

    def _provider_of(self, issuer: str | None) -> Provider:
        if issuer is None:
            raise BadClaims("the response is no token")
        if issuer not in self._providers:
            if len(self._providers) > MAX_CLAIM_ISSUERS or not issuer.startswith("https://"):
                raise BadClaims("the response is of another issuer")
            self._providers[issuer] = self._provider.other(issuer)
        return self._providers[issuer]


def _endpoint(claims: dict[str, Any], claim: str) -> tuple[str, str]:
    """The endpoint of a claim, and the token for it; empty if the claim is not elsewhere."""
    names, sources = claims["_claim_names"], claims.get("_claim_sources")
    if not isinstance(names, dict) or not all(isinstance(one, str) for one in names.values()):
        raise BadClaims("could not expand distributed claims: error parsing distributed claim names")
    if not isinstance(sources, dict):
        raise BadClaims("could not expand distributed claims: no claim sources")
    if claim not in names:
        return "", ""
    source = sources.get(names[claim])
    if not isinstance(source, dict):
        raise BadClaims("could not expand distributed claims: the source of the claim is missing")
    endpoint, token = source.get("endpoint", ""), source.get("access_token", "")
    if not isinstance(endpoint, str) or not isinstance(token, str):
        raise BadClaims("could not expand distributed claims: could not parse claim sources")
    return endpoint, token


PAUSE = 10.0  # seconds from the end of a fetch to the next
TIME_LIMIT = 10.0  # of a discovery together with the keys
MAX_BYTES = 256 * 1024  # per document; those of large providers have less than 10 kB
# Requests that wait for a fetch: any client can send tokens that need one. Further ones are rejected at once.
MAX_WAITING = 1000
DISCOVERY_PATH = "/.well-known/openid-configuration"


class ProviderError(Exception):
    """The provider cannot be used now; the text says why."""


class Provider:
    """An identity provider: its discovery document and its keys, fetched over HTTPS.

    That happens at the start, and when a token was signed by an unknown key. A fetch runs in its own task, so that a
    client that disconnects does not end it for others; tokens that arrive meanwhile wait for the same fetch. A fetch is
    never repeated within ten seconds, whether it failed or not. That bounds the requests to an unreachable provider,
    and those caused by tokens with invented key ids. The size of responses and the duration of a fetch are limited.
    Redirects are not followed.
    """

    def __init__(
        self,
        issuer: str,
        authorities: Path | bytes | None,
        calls: Calls,
        discovery_url: str = "",
        now: Callable[[], float] = time,
    ) -> None:
        """`authorities` are a file or its contents; None: those of the system."""
        self.issuer = issuer
        self._calls = calls
        self._discovery_url = discovery_url
        self._now = now
        self.last: dict[str, float] = {}  # when keys were last fetched, by result, in seconds since 1970
        self.keys: tuple[Key, ...] = ()
        self.version = 0  # of the keys; changes whenever they do
        self.fetches = 0  # successful ones
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None
        self._keys_url = ""
        self._document = b""
        self._next = -float("inf")  # when the next fetch may start
        self._fetching: trio.Event | None = None
        self.problem = ""  # of the last fetch that failed

    async def refresh(self, seen: int) -> bool:
        """Fetch the keys, unless there were more than `seen` fetches. Returns False if that is not possible now."""
        if self.fetches != seen:
            return True
        if self._fetching is None:
            if trio.current_time() < self._next:
                return False
            self._fetching = trio.Event()
            trio.lowlevel.spawn_system_task(self._fetch, self._fetching)
        if self._fetching.statistics().tasks_waiting >= MAX_WAITING:
            return False
        await self._fetching.wait()
        return self.fetches != seen

    async def _fetch(self, done: trio.Event) -> None:
        """Fetch the keys, as a system task: no exception may escape."""
        try:
            with trio.fail_after(TIME_LIMIT):
                await self._fetch_keys()
            self.fetches += 1
            self.last[SUCCESS] = self._now()
        except trio.TooSlowError:
            self._failed(f"no complete response within {TIME_LIMIT:.0f} s")
        except ProviderError as error:
            self._failed(str(error))
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")
        finally:
            self._next = trio.current_time() + PAUSE
            self._fetching = None
            done.set()

    def _failed(self, why: str) -> None:
        self._keys_url = ""  # the next fetch starts with the discovery
        self.last[FAILURE], self.problem = self._now(), why
        logger.warning(
            "the identity provider %s cannot be used, next try in %.0f s: %s", self.issuer, PAUSE, why
        )

    async def _fetch_keys(self) -> None:
        await imported("jwt")
        if not self._keys_url:
            url = self._discovery_url or self.issuer.rstrip("/") + DISCOVERY_PATH
            self._keys_url = _keys_url(_parsed(await self._get(url)), self.issuer)
        document = await self._get(self._keys_url)
        if document == self._document:
            return
        try:
            keys = await trio.to_thread.run_sync(lambda: parse_keys(_parsed(document)))
        except ValueError as error:
            raise ProviderError(f"{self._keys_url} is no document of keys: {error}") from error
        self.keys, self._document = keys, document
        self.version += 1

    async def fetch(self, url: str, access_token: str) -> bytes:
        """Fetch claims of a user from an endpoint that a token names. Raises ProviderError."""
        with trio.move_on_after(TIME_LIMIT):
            return (await self._get(url, access_token)).strip()
        raise ProviderError(f"no complete response within {TIME_LIMIT:.0f} s")

    def other(self, issuer: str) -> Provider:
        """Another provider, which is called in the same way."""
        return Provider(issuer, self._authorities, self._calls, now=self._now)

    @property
    def key_set_hash(self) -> str:
        return f"sha256:{hashlib.sha256(self._document).hexdigest()}" if self._document else ""

    async def _get(self, url: str, access_token: str = "") -> bytes:
        if self._context is None:
            self._context = await trio.to_thread.run_sync(client_context, self._authorities)
        try:
            return await self._calls.fetch(url, self._context, MAX_BYTES, access_token)
        except DocumentError as error:
            raise ProviderError(str(error)) from None


def _parsed(document: bytes) -> Any:
    try:
        return orjson.loads(document)
    except ValueError:
        raise ProviderError("the document is no JSON") from None


def _keys_url(discovered: Any, issuer: str) -> str:
    if not isinstance(discovered, dict) or discovered.get("issuer") != issuer:
        raise ProviderError("the discovery document is that of another issuer")
    url = discovered.get("jwks_uri")
    if not isinstance(url, str) or not url.startswith("https://"):
        raise ProviderError("the discovery document has no jwks_uri with https")
    return url


def client_context(authorities: Path | bytes | None) -> ssl.SSLContext:
    """The TLS context for calls to the provider. A self-signed certificate counts only with the CA flag."""
    if authorities is None:
        return verifying(None)
    from cryptography import x509

    where = "its certificate authorities" if isinstance(authorities, bytes) else f"the CA file {authorities}"
    try:
        bundle = authorities if isinstance(authorities, bytes) else authorities.read_bytes()
        certificates = x509.load_pem_x509_certificates(bundle)
    except (ValueError, OSError) as error:
        raise ProviderError(f"{where} cannot be read: {error}") from error
    trusted = [
        one
        for one in certificates
        if one.subject != one.issuer or _is_authority(one, x509.BasicConstraints, x509.ExtensionNotFound)
    ]
    if not trusted:
        raise ProviderError(f"no certificate of {where} has the CA flag")
    from cryptography.hazmat.primitives.serialization import Encoding

    return verifying(b"".join(one.public_bytes(Encoding.PEM) for one in trusted))


def _is_authority(certificate: Any, constraints: type, missing: type[Exception]) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(constraints).value.ca)
    except (missing, ValueError):
        return False


_LEAST_RSA_BITS = 2048
_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}


class BadSignature(Exception):
    """No key of the provider has signed the token in an allowed way; the text says why."""


class TokenHeader(NamedTuple):
    algorithm: str
    key_id: str | None


@dataclass(frozen=True, slots=True)
class Key:
    id: str | None
    algorithm: str | None  # the only one that it is for, if the provider says so
    key: Any  # of `cryptography`

    def fits(self, header: TokenHeader) -> bool:
        if header.key_id is not None and self.id != header.key_id:
            return False
        if self.algorithm is not None and self.algorithm != header.algorithm:
            return False
        curve = getattr(self.key, "curve", None)
        return _CURVES.get(header.algorithm) == (None if curve is None else curve.name)


def parse_keys(document: Any) -> tuple[Key, ...]:
    """The usable signing keys of a key document. Raises ValueError if it is no such document."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it has no list of keys")
    keys = [_key(one) for one in listed if isinstance(one, dict)]
    return tuple(key for key in keys if key is not None)


def _key(entry: dict[str, Any]) -> Key | None:
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm
    from jwt.exceptions import InvalidKeyError

    kinds: dict[str | None, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm}
    kind = kinds.get(_text(entry.get("kty")))
    if kind is None or entry.get("use", "sig") != "sig":
        return None
    try:
        key = kind.from_jwk(entry)
    except (InvalidKeyError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if hasattr(key, "public_key"):
        key = key.public_key()
    if kind is RSAAlgorithm and key.key_size < _LEAST_RSA_BITS:
        logger.warning("a key of the identity provider has less than %d bits: not used", _LEAST_RSA_BITS)
        return None
    return Key(_text(entry.get("kid")), _text(entry.get("alg")), key)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@cache
def _signatures() -> Any:
    from jwt.api_jws import PyJWS

    return PyJWS()


def token_header(token: bytes, algorithms: Sequence[str]) -> TokenHeader:
    """The header of a token, which describes its signature. Raises BadSignature if that is not allowed."""
    from jwt.exceptions import PyJWTError

    try:
        header = _signatures().get_unverified_header(token)
    except (PyJWTError, RecursionError) as error:
        raise BadSignature("the token is malformed") from error
    if not _has_unique_members(token.partition(b".")[0]) or not isinstance(header.get("kid"), str | None):
        raise BadSignature("the token is malformed")
    if header.get("alg") not in algorithms or "crit" in header:
        raise BadSignature("the algorithm is not allowed")
    return TokenHeader(header["alg"], header.get("kid"))


def _has_unique_members(segment: bytes) -> bool:
    try:
        return object_of(base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))) is not None
    except ValueError:
        return False


def verified_claims(token: bytes, header: TokenHeader, keys: Sequence[Key]) -> dict[str, Any] | None:
    """The claims of a token if one of the keys has signed it, else None. Raises BadSignature if they are unreadable.

    Only RSA and EC keys count: a symmetric key in the provider's document would let everyone who can read it sign. The
    algorithm must be in the list of the settings and fit the key. A token names a key only by its id: keys and
    addresses in its own header (jwk, jku, x5u, x5c) are never read. Callers must have imported `jwt`.
    """
    from jwt.exceptions import PyJWTError

    for key in keys:
        if key.fits(header):
            try:
                payload = _signatures().decode_complete(token, key.key, [header.algorithm])["payload"]
            except (PyJWTError, ValueError, RecursionError):
                continue
            claims = object_of(payload)
            if claims is None:
                raise BadSignature("the claims are no JSON object, or one occurs twice")
            return claims
    return None

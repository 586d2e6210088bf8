"""OpenID Connect: the bearer token is an ID token that one identity provider has signed.

The issuer is read before anything is verified, so that tokens of others pass on to the next method at once. A verified
token is kept by its digest until it expires or the keys of the provider change, so that a repeated one costs a hash and
a lookup. The log has the reason why a token was refused, and never its content; each reason once in ten seconds,
because everybody can send tokens. TokenReviews have it too.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple

import orjson

from actors.access.authentication.authenticate import Authenticated, Refused
from actors.access.authentication.oidc_claims import BadClaims, ClaimRules
from actors.access.authentication.oidc_keys import BadSignature, token_header, verified_claims
from actors.access.authentication.oidc_provider import Provider
from actors.background_import import imported
from actors.clock import Clock

logger = logging.getLogger(__name__)

# Tokens of this many users at once need no new check of the signature; about 1 kB each.
MAX_VERIFIED = 4096
_LOG_PAUSE = 10.0


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
        self._logged: dict[str, float] = {}  # when each reason for a refusal was logged last

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
        if not self._rules.is_issuer(_unverified_issuer(token)):
            return None
        return self._verify(token, digest, granted)

    async def _verify(self, token: bytes, digest: bytes, granted: tuple[str, ...]) -> Authenticated | Refused:
        try:
            claims = await self._claims(token)
            expires = self._rules.expiry(claims, self._now())
            result = Authenticated(self._rules.user(claims).with_authenticated_group())
        except (BadSignature, BadClaims) as error:
            self._log(str(error))
            return Refused(f"oidc: {error}")
        self._keep(digest, _Verified(expires, result))
        return result if not granted else Authenticated(result.user, audiences=granted)

    async def _claims(self, token: bytes) -> dict[str, Any]:
        """The claims, with keys that are fetched again if none of those that are known has signed the token."""
        await imported("jwt")
        header = token_header(token, self._algorithms)
        provider = self._provider
        fetches = provider.fetches
        claims = verified_claims(token, header, provider.keys)
        if claims is None and await provider.refresh(fetches):
            claims = verified_claims(token, header, provider.keys)
        if claims is None:
            raise BadSignature("no known key of the provider has signed the token")
        return claims

    def _forget(self) -> None:
        """The keys have changed: the key of a verified token may be gone."""
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
        """There are as many reasons as checks: the table does not grow."""
        now = self._now()
        if now >= self._logged.get(reason, 0) + _LOG_PAUSE:
            self._logged[reason] = now
            logger.info("an ID token is refused: %s", reason)

    def _now(self) -> float:
        return self._clock.now() / 1_000_000


def _unverified_issuer(token: bytes) -> str | None:
    """The issuer that a token names; None for what is no JWT."""
    parts = token.split(b".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None

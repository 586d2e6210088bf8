"""Issues service account tokens: bound ones for TokenRequests, and those that token Secrets hold."""

from __future__ import annotations

import trio

from actors.access.accounts.claims import Claims, Reference, bound_claims, secret_claims
from actors.access.accounts.keys import AccountKeys
from actors.access.accounts.options import AccountOptions
from actors.access.accounts.signatures import sign
from actors.names import Names


class TokenIssuer:
    def __init__(self, names: Names, keys: AccountKeys, options: AccountOptions) -> None:
        self._names = names
        self._keys = keys
        self.options = options

    async def bound_token(
        self,
        account: Reference,
        bound: Reference | None,
        audiences: tuple[str, ...],
        now: int,
        seconds: int,
        warn_after: int = 0,
    ) -> str:
        claims = bound_claims(self._names, account, bound, audiences, now, seconds, warn_after)
        return await self._sign(claims, self.options.issuer)

    async def secret_token(self, account: Reference, secret: str) -> str:
        return await self._sign(secret_claims(self._names, account, secret), self._names.secret_token_issuer)

    async def _sign(self, claims: Claims, issuer: str) -> str:
        key = (await self._keys.get()).signing
        whole = {**claims, "iss": issuer}
        return await trio.to_thread.run_sync(sign, key, whole) if key.is_slow else sign(key, whole)

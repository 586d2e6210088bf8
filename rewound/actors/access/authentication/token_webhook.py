"""Authenticates tokens by a webhook: POSTs a TokenReview and takes the user from the status of the response.

    request   {"apiVersion": ".../v1beta1", "kind": "TokenReview", "spec": {"token": "...", "audiences": ["..."]}}
    response  {"apiVersion": ".../v1beta1", "kind": "TokenReview", "status": {"authenticated": true,
               "user": {"username": "jane", "uid": "42", "groups": ["devs"], "extra": {"scope": ["x"]}}}}

Both outcomes are cached for a time; a failed call is not. The cache key is an HMAC of token and audiences with a random
key, so that no tokens are in memory. Only one call at a time is made per token. A cached result needs no coroutine, and
a webhook that does not respond delays only requests with tokens that no other method knows.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from rewound.actors.access.authentication.authenticate import Authenticated, Outcome, Refused
from rewound.actors.access.remote.calls import Reviewer, WebhookError, review
from rewound.actors.access.remote.shared_calls import ExpiringCache, SharedCalls
from rewound.actors.identity import User

logger = logging.getLogger(__name__)

# About 20 MB. A flood of unknown tokens evicts only entries that are used less often.
MAX_CACHED: Final = 16_384
MAX_ERROR: Final = 1000  # characters of status.error that are reported


class TokenWebhook:
    """A `TokenMethod`. `audiences` are those of this server, for tokens for which the webhook names none."""

    def __init__(
        self, webhook: Reviewer, api_version: str, audiences: tuple[str, ...], seconds: float
    ) -> None:
        self._webhook = webhook
        self._api_version = api_version
        self._audiences = audiences
        self._own_part = _measured(audiences)
        self._seconds = seconds
        self._secret = secrets.token_bytes(32)
        self._cache: ExpiringCache[bytes, Authenticated | Refused] = ExpiringCache(MAX_CACHED)
        self._calls: SharedCalls[bytes, Authenticated | Refused] = SharedCalls()

    def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Outcome | Awaitable[Outcome]:
        wanted = audiences or self._audiences
        key = self._key(token, wanted)
        known = self._cache.get(key)
        if known is not None:
            return known
        try:
            text = token.decode()
        except UnicodeDecodeError:
            return None  # not representable in JSON
        return self._ask(key, text, wanted)

    def _key(self, token: bytes, audiences: tuple[str, ...]) -> bytes:
        named = self._own_part if audiences == self._audiences else _measured(audiences)
        return hmac.digest(self._secret, len(token).to_bytes(8, "big") + token + named, "sha256")

    async def _ask(self, key: bytes, token: str, audiences: tuple[str, ...]) -> Authenticated | Refused:
        try:
            return await self._calls.result(key, lambda: self._call(key, token, audiences))
        except WebhookError as error:
            return Refused(str(error))

    async def _call(self, key: bytes, token: str, audiences: tuple[str, ...]) -> Authenticated | Refused:
        spec: dict[str, Any] = {"token": token}
        if audiences:
            spec["audiences"] = list(audiences)
        try:
            status = await review(self._webhook, self._api_version, "TokenReview", spec)
            result = self._result(status, audiences)
        except WebhookError as error:
            logger.warning("token webhook: %s", error)
            raise
        if isinstance(result, Refused) and result.reason:
            logger.info("token webhook refused a token: %r", result.reason)
        self._cache.put(key, result, self._seconds)
        return result

    def _result(self, status: Mapping[str, Any], wanted: tuple[str, ...]) -> Authenticated | Refused:
        if status.get("authenticated") is not True:
            error = status.get("error")
            return Refused(error[:MAX_ERROR] if isinstance(error, str) else "")
        user = _user(_object(status.get("user"), "user"))
        if user is None:
            return Refused("the token webhook named no user")
        held = _texts(status.get("audiences"), "audiences") or self._audiences
        valid_for = tuple(one for one in wanted if one in held)
        if wanted and not valid_for:
            return Refused()
        # Already with the group of all authenticated users, so that a cached result is returned unchanged.
        return Authenticated(user.with_authenticated_group(), audiences=valid_for)


def _measured(texts: tuple[str, ...]) -> bytes:
    """The texts with their lengths, so that no two lists have the same bytes."""
    return b"".join(len(one).to_bytes(8, "big") + one for one in (text.encode() for text in texts))


def _user(info: Mapping[str, Any]) -> User | None:
    """None without a name. Raises WebhookError for fields of the wrong type: nothing of such a user is reliable."""
    name, uid = info.get("username") or "", info.get("uid") or ""
    if not isinstance(name, str) or not isinstance(uid, str):
        raise WebhookError("the token webhook responded with a username or uid that is not a string")
    if not name:
        return None
    extra = _object(info.get("extra"), "user.extra")
    values = tuple((key, _texts(value, "user.extra")) for key, value in extra.items())
    return User(name, uid, _texts(info.get("groups"), "user.groups"), values)


def _object(value: Any, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WebhookError(f"the token webhook responded with a {field} that is not an object")
    return value


def _texts(value: Any, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise WebhookError(f"the token webhook responded with a {field} that is not a list of strings")
    return tuple(value)

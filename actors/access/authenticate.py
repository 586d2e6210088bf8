"""Who is calling: client certificate, then bearer token, then anonymous; the first method that succeeds decides.

The gateway calls `authenticate` once per request with plain values: the Authorization header and the verified
certificate of the connection. The result comes at once where it is known, and as an awaitable where a token method
has to ask somebody, so that the usual request makes no coroutine and a slow identity provider holds up only those
who use it. A bearer token that no method accepts is refused even where anonymous requests are allowed: a client that
sends a credential does not want to be anonymous. The header of each static token is a dictionary key as it stands,
so that the usual request costs one lookup and no parsing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from actors.access.anonymous import NOBODY
from actors.access.client_certificate import user_of_certificate
from actors.errors import Unauthorized
from actors.identity import User

# Of the users who sign in with certificates; with more of them, some are read anew now and then.
SUBJECTS_KEPT = 1000
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


@dataclass(frozen=True, slots=True)
class Authenticated:
    user: User
    warnings: tuple[str, ...] = ()  # Warning headers of the response
    audiences: tuple[str, ...] = ()  # of those asked for, the ones that the token is for


class TokenMethod(Protocol):
    """One way to authenticate bearer tokens."""

    def authenticate(
        self, token: bytes, audiences: tuple[str, ...]
    ) -> Authenticated | Awaitable[Authenticated | None] | None:
        """None where this method does not accept the token. Without audiences, it must be for this server."""


class Authenticator:
    def __init__(
        self, tokens: Mapping[str, User], *, anonymous: bool, methods: Sequence[TokenMethod] = ()
    ) -> None:
        """`methods` are asked in order, about tokens that are not among `tokens`."""
        self._tokens = {token.encode(): Authenticated(user.signed_in()) for token, user in tokens.items()}
        self._headers = {b"Bearer " + token: who for token, who in self._tokens.items()}
        self._subjects: dict[Any, Authenticated] = {}
        self._methods = tuple(methods)
        self._nobody = Authenticated(NOBODY) if anonymous else None

    def authenticate(
        self, authorization: bytes | None, certificate: Mapping[str, Any] | None
    ) -> Authenticated | Awaitable[Authenticated]:
        """Unauthorized, at once or when awaited, where a credential is wrong, or missing and needed."""
        if certificate is not None:
            known = self.by_certificate(certificate)
            if known is not None:
                return known
        return self.by_header(authorization)

    def by_certificate(self, certificate: Mapping[str, Any]) -> Authenticated | None:
        subject = certificate.get("subject")
        known = self._subjects.get(subject)
        if known is not None:
            return known
        user = user_of_certificate(certificate)
        if user is None:
            return None
        if len(self._subjects) >= SUBJECTS_KEPT:
            self._subjects.clear()
        known = self._subjects[subject] = Authenticated(user.signed_in())
        return known

    def by_header(self, authorization: bytes | None) -> Authenticated | Awaitable[Authenticated]:
        if authorization is None:
            return self._anonymous()
        known = self._headers.get(authorization)
        if known is not None:
            return known
        token, warnings = _bearer_token(authorization)
        if token is None:
            return self._anonymous(warnings)
        return self.by_token(token)

    def by_token(
        self, token: bytes, audiences: tuple[str, ...] = ()
    ) -> Authenticated | Awaitable[Authenticated]:
        # Static tokens are for this server alone: who asks for other audiences does not find theirs among them.
        known = None if audiences else self._tokens.get(token)
        if known is not None:
            return known
        for place, method in enumerate(self._methods):
            found = method.authenticate(token, audiences)
            if isinstance(found, Authenticated):
                return _signed_in(found)
            if found is not None:
                return _await_rest(token, audiences, found, self._methods[place + 1 :])
        raise Unauthorized

    def _anonymous(self, warnings: tuple[str, ...] = ()) -> Authenticated:
        if self._nobody is None:
            raise Unauthorized
        return Authenticated(NOBODY, warnings) if warnings else self._nobody


async def _await_rest(
    token: bytes,
    audiences: tuple[str, ...],
    pending: Awaitable[Authenticated | None],
    following: Sequence[TokenMethod],
) -> Authenticated:
    found = await pending
    for method in following:
        if found is not None:
            break
        answer = method.authenticate(token, audiences)
        found = answer if answer is None or isinstance(answer, Authenticated) else await answer
    if found is None:
        raise Unauthorized
    return _signed_in(found)


def _signed_in(found: Authenticated) -> Authenticated:
    user = found.user.signed_in()
    return found if user is found.user else replace(found, user=user)


def _bearer_token(authorization: bytes) -> tuple[bytes | None, tuple[str, ...]]:
    """The token of a bearer header, None for everything that counts as no credentials at all."""
    scheme, *rest = authorization.strip().split(b" ", 2)
    if not rest or scheme.lower() != b"bearer":
        return None, ()
    if not rest[0]:
        return None, (EXTRA_SPACE,)
    return rest[0], ()

"""Who is calling: client certificate, then bearer token, then nobody; the first that knows the caller ends
it.

Called once per request by the gateway, with plain values: what stood in the Authorization header and the
verified certificate of the connection. A token that nobody knows is refused even where anonymous callers
are welcome: whoever shows a credential means to be somebody. The header of each known token is kept whole,
so that the usual request costs one dictionary lookup and no parsing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    warnings: tuple[str, ...] = ()  # for the caller to read beside the answer


class Authenticator:
    def __init__(self, tokens: Mapping[str, User], *, anonymous: bool) -> None:
        self._tokens = {token.encode(): Authenticated(user.signed_in()) for token, user in tokens.items()}
        self._headers = {b"Bearer " + token: who for token, who in self._tokens.items()}
        self._subjects: dict[Any, Authenticated] = {}
        self._nobody = Authenticated(NOBODY) if anonymous else None

    def authenticate(
        self, authorization: bytes | None, certificate: Mapping[str, Any] | None
    ) -> Authenticated:
        """Unauthorized where a credential is wrong, or missing and needed."""
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

    def by_header(self, authorization: bytes | None) -> Authenticated:
        if authorization is None:
            return self._anonymous()
        known = self._headers.get(authorization)
        if known is not None:
            return known
        token, warnings = _bearer_token(authorization)
        if token is None:
            return self._anonymous(warnings)
        return self.by_token(token)

    def by_token(self, token: bytes) -> Authenticated:
        known = self._tokens.get(token)
        if known is None:
            raise Unauthorized
        return known

    def _anonymous(self, warnings: tuple[str, ...] = ()) -> Authenticated:
        if self._nobody is None:
            raise Unauthorized
        return Authenticated(NOBODY, warnings) if warnings else self._nobody


def _bearer_token(authorization: bytes) -> tuple[bytes | None, tuple[str, ...]]:
    """The token of a bearer header, None for everything that is to be taken for no credentials at all."""
    scheme, *rest = authorization.strip().split(b" ", 2)
    if not rest or scheme.lower() != b"bearer":
        return None, ()
    if not rest[0]:
        return None, (EXTRA_SPACE,)
    return rest[0], ()

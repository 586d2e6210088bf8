"""Authenticates requests by proxy headers, client certificate or bearer token, or as anonymous; the first success wins.

The gateway calls `authenticate` once per request with plain values: the Authorization header and the verified
certificate of the connection; or `authenticate_proxied` if the certificate is an authenticating proxy's. They return
the result if it is known, otherwise an awaitable. So the common request needs no coroutine, and a slow identity
provider delays only its own users. A bearer token that no method accepts is rejected even if anonymous requests are
allowed: a client that sends a credential does not want to be anonymous.

The whole header of each static token is a dictionary key, so that the common request costs one lookup and no parsing.
So is the header of each service account token while it is known to be valid. A connection passes the same bytes object
with each request, and Python computes its hash once. The lookup compares randomly keyed hashes first, and bytes only if
the hashes are equal: its timing does not reveal how much of a guessed token is right.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import time_ns
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec.structs import replace

from rewound.actors.errors import Unauthorized
from rewound.actors.identity import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User

# Headers with tokens that are valid for some time, of about a kilobyte each. The oldest is evicted first.
MAX_CACHED_HEADERS = 2000
# Users of client certificates; the cache is cleared when it is full.
MAX_CACHED_SUBJECTS = 1000
_SPACE = ord(" ")  # searching for a number is five times as fast as for bytes
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


class Authenticated(msgspec.Struct, frozen=True):
    user: User
    warnings: tuple[str, ...] = ()  # Warning headers of the response
    audiences: tuple[str, ...] = ()  # the requested audiences that the token is valid for
    annotations: tuple[tuple[str, str], ...] = ()  # for the audit events of the request
    by_proxy: bool = False  # an authenticating proxy has named the user


class Refused(msgspec.Struct, frozen=True):
    """A token that a method recognizes and rejects. The other methods are still called."""

    reason: str = ""  # for TokenReviews; clients that send the token get no reason
    annotations: tuple[tuple[str, str], ...] = ()  # for the audit events of the request


Outcome = Authenticated | Refused | None


class TokenMethod(Protocol):
    """One way to authenticate bearer tokens."""

    def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Outcome | Awaitable[Outcome]:
        """None if this method does not accept the token. Without audiences, the token must be valid for this server."""


class CachedToken(Protocol):
    """A token that a method has verified. Times are in nanoseconds since 1970."""

    @property
    def result(self) -> Authenticated | None:
        """For requests to this server; None: the token is for another audience."""

    @property
    def not_before(self) -> int: ...

    @property
    def known_until(self) -> int:
        """Until then the token is valid and needs no further check; the method may bring this forward at any time."""


class CachingMethod(TokenMethod, Protocol):
    def cached(self, token: bytes) -> CachedToken | None:
        """The cache entry of a token that the method has just authenticated."""

    @property
    def now(self) -> Callable[[], int]:
        """The time in nanoseconds since 1970."""


class Authenticator:
    def __init__(
        self,
        tokens: Mapping[str, User],
        *,
        anonymous: bool,
        anonymous_paths: frozenset[str] = frozenset(),
        methods: Sequence[TokenMethod] = (),
        caching: CachingMethod | None = None,
        request_headers: RequestHeaders | None = None,
    ) -> None:
        """`caching` and `methods` are called in order for tokens that are not in `tokens`.

        Anonymous requests are for `anonymous_paths` only, unless there are none: the caller knows the path.
        """
        self.anonymous_paths = anonymous_paths
        self.replace_tokens(tokens)
        self._subjects: dict[Any, Authenticated] = {}
        self._caching = caching
        self._cached: dict[bytes, CachedToken] = {}  # by header
        self._now = time_ns if caching is None else caching.now
        self._methods: tuple[TokenMethod, ...] = tuple(methods) if caching is None else (caching, *methods)
        self._request_headers = request_headers
        self._anonymous_result = Authenticated(ANONYMOUS_USER) if anonymous else None

    def replace_tokens(self, tokens: Mapping[str, User]) -> None:
        """Accept these static tokens, and no others any more."""
        self._tokens = {
            token.encode(): Authenticated(user.with_authenticated_group()) for token, user in tokens.items()
        }
        self._headers = {b"Bearer " + token: who for token, who in self._tokens.items()}

    def authenticate(
        self, authorization: bytes | None, certificate: Mapping[str, Any] | None
    ) -> Authenticated | Awaitable[Authenticated]:
        """Raises Unauthorized, at once or when awaited, if a credential is wrong, or missing and required."""
        if certificate is not None:
            known = self._subjects.get(certificate.get("subject")) or self._by_certificate(certificate)
            if known is not None:
                return known
        return self.by_header(authorization)

    def authenticate_proxied(
        self,
        authorization: bytes | None,
        certificate: Mapping[str, Any] | None,
        proxy_certificate: Mapping[str, Any],
        fields: HeaderFields,
    ) -> Authenticated | Awaitable[Authenticated]:
        """Like `authenticate`, for a connection with a certificate of a proxy CA; removes the headers that it uses.

        If the proxy names no user, a bearer token may. Without one, the request is rejected, not anonymous, unless the
        certificate is also that of an ordinary client.
        """
        if self._request_headers is not None:
            user = self._request_headers.take_user(proxy_certificate, fields)
            if user is not None:
                return Authenticated(user.with_authenticated_group(), by_proxy=True)
        if certificate is None:
            return self._by_token_alone(authorization)
        return self.authenticate(authorization, certificate)

    def authenticate_expired(self, authorization: bytes | None) -> Authenticated | Awaitable[Authenticated]:
        """Like `authenticate`, for a connection whose certificate has expired since its handshake.

        Connections and TLS sessions outlive certificates. A bearer token still counts.
        """
        return self._by_token_alone(authorization)

    def _by_token_alone(self, authorization: bytes | None) -> Authenticated | Awaitable[Authenticated]:
        """Require a token, because the certificate is not accepted: without one the request is not anonymous."""
        found = self.by_header(authorization)
        if isinstance(found, Authenticated) and found.user == ANONYMOUS_USER:
            raise Unauthorized
        return found

    def _by_certificate(self, certificate: Mapping[str, Any]) -> Authenticated | None:
        """Find the user of a certificate, and cache it by the subject."""
        user = user_of_certificate(certificate)
        if user is None:
            return None
        if len(self._subjects) >= MAX_CACHED_SUBJECTS:
            self._subjects.clear()
        known = self._subjects[certificate.get("subject")] = Authenticated(user.with_authenticated_group())
        return known

    def by_header(self, authorization: bytes | None) -> Authenticated | Awaitable[Authenticated]:
        if authorization is None:
            return self._anonymous()
        known = self._headers.get(authorization)
        if known is not None:
            return known
        cached = self._cached.get(authorization)
        if cached is not None and cached.result is not None:
            if cached.not_before <= self._now() < cached.known_until:
                return cached.result
            del self._cached[authorization]
        if authorization[:7] == b"Bearer ":  # the usual form, which needs no parsing
            token = authorization[7:]
            if token and _SPACE not in token and not token[-1:].isspace():
                found = self.by_token(token)
                if self._caching is not None and isinstance(found, Authenticated):
                    self._cache(authorization, self._caching.cached(token), found)
                return found
        return self._by_parsed_header(authorization)

    def _cache(self, authorization: bytes, cached: CachedToken | None, found: Authenticated) -> None:
        """Remember the header of a token that needs no check until it expires or an object that it names changes."""
        if cached is not None and cached.result == found:
            if len(self._cached) >= MAX_CACHED_HEADERS:
                del self._cached[next(iter(self._cached))]
            self._cached[authorization] = cached

    def _by_parsed_header(self, authorization: bytes) -> Authenticated | Awaitable[Authenticated]:
        token, warnings = _bearer_token(authorization)
        if token is None:
            return self._anonymous(warnings)
        return self.by_token(token)

    def by_token(
        self, token: bytes, audiences: tuple[str, ...] = ()
    ) -> Authenticated | Awaitable[Authenticated]:
        # Static tokens are valid only for this server, not for other audiences.
        known = None if audiences else self._tokens.get(token)
        if known is not None:
            return known
        refused: list[Refused] = []
        for index, method in enumerate(self._methods):
            found = method.authenticate(token, audiences)
            if isinstance(found, Authenticated):
                return found if AUTHENTICATED in found.user.groups else _with_authenticated_group(found)
            if isinstance(found, Refused):
                refused.append(found)
            elif found is not None:
                return _await_rest(token, audiences, found, self._methods[index + 1 :], refused)
        raise _refusal(refused)

    def _anonymous(self, warnings: tuple[str, ...] = ()) -> Authenticated:
        if self._anonymous_result is None:
            raise Unauthorized
        return Authenticated(ANONYMOUS_USER, warnings) if warnings else self._anonymous_result


async def _await_rest(
    token: bytes,
    audiences: tuple[str, ...],
    pending: Awaitable[Outcome],
    following: Sequence[TokenMethod],
    refused: list[Refused],
) -> Authenticated:
    found = await pending
    for method in following:
        if isinstance(found, Authenticated):
            break
        if found is not None:
            refused.append(found)
        result = method.authenticate(token, audiences)
        found = result if result is None or isinstance(result, Authenticated | Refused) else await result
    if isinstance(found, Authenticated):
        return _with_authenticated_group(found)
    if found is not None:
        refused.append(found)
    raise _refusal(refused)


def _refusal(refused: Sequence[Refused]) -> Unauthorized:
    reasons = [one.reason for one in refused if one.reason]
    return Unauthorized(reasons, [annotation for one in refused for annotation in one.annotations])


def _with_authenticated_group(found: Authenticated) -> Authenticated:
    user = found.user.with_authenticated_group()
    return found if user is found.user else replace(found, user=user)


def _bearer_token(authorization: bytes) -> tuple[bytes | None, tuple[str, ...]]:
    """The token of a bearer header; None for everything that counts as no credentials at all."""
    scheme, *rest = authorization.strip().split(b" ", 2)
    if not rest or scheme.lower() != b"bearer":
        return None, ()
    if not rest[0]:
        return None, (EXTRA_SPACE,)
    return rest[0], ()


ANONYMOUS_USER = User(ANONYMOUS, groups=(UNAUTHENTICATED,))


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The user in a client certificate: the subject's common name, its organizations as groups.

    The certificate has the form of `ssl.SSLSocket.getpeercert()`, which is filled only for a certificate signed by the
    trusted client CAs; the TLS handshake has verified it.

    None for a certificate without a common name: other credentials may still name a user.
    """
    name = common_name(certificate)
    if not name:
        return None
    return User(name, groups=tuple(_attributes(certificate, "organizationName")))


def common_name(certificate: Mapping[str, Any]) -> str:
    """The last common name of the subject; empty if it has none."""
    names = _attributes(certificate, "commonName")
    return names[-1] if names else ""


def _attributes(certificate: Mapping[str, Any], wanted: str) -> list[str]:
    return [value for part in certificate.get("subject", ()) for kind, value in part if kind == wanted]


_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")


class HeaderFields(Protocol):
    """The headers of a request: names are lower-case; `repeated` has those that were sent more than once."""

    headers: dict[bytes, bytes]
    repeated: dict[bytes, list[bytes]] | None


class RequestHeaders(msgspec.Struct, frozen=True):
    """The authenticating proxy: it has authenticated the user and passes the identity in headers.

    `Authenticator` calls this only for connections whose certificate a CA of --requestheader-client-ca-file issued;
    headers of all other connections have no effect. The proxy must have an allowed common name. The headers are removed
    once they are used, so that nothing after authentication sees them. Values are used unchanged: a header that was
    sent twice has two values, and a comma does not separate values.

    Two rules are stricter than those of Kubernetes. A repeated user name header is rejected, because a proxy that adds
    its header to the client's would let the client choose. Names that are not UTF-8 are rejected, because two of them
    could be displayed, and authorized, as the same.

    Names and prefixes are lower-case.
    """

    user_names: tuple[bytes, ...]
    groups: tuple[bytes, ...] = ()
    extra_prefixes: tuple[bytes, ...] = ()
    allowed_names: frozenset[str] = frozenset()  # empty: every common name

    def take_user(self, certificate: Mapping[str, Any], fields: HeaderFields) -> User | None:
        """The user that a proxy with this certificate names; None if it names no user. Raises Unauthorized."""
        if self.allowed_names and common_name(certificate) not in self.allowed_names:
            return None
        name = self._user_name(fields)
        if not name:
            return None
        user = User(name, groups=self._groups(fields), extra=self._extra(fields))
        self._remove(fields)
        return user

    def _user_name(self, fields: HeaderFields) -> str:
        for header in self.user_names:
            if fields.repeated and header in fields.repeated:
                raise Unauthorized
            value = fields.headers.get(header)
            if value:
                return _text(value)
        return ""

    def _groups(self, fields: HeaderFields) -> tuple[str, ...]:
        return tuple(_text(value) for header in self.groups for value in _values(fields, header) if value)

    def _extra(self, fields: HeaderFields) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for prefix in self.extra_prefixes:
            for header in fields.headers:
                if header.startswith(prefix):
                    values = [_text(value) for value in _values(fields, header)]
                    found.setdefault(extra_key(header[len(prefix) :]), []).extend(values)
        return tuple((key, tuple(values)) for key, values in sorted(found.items()))

    def _remove(self, fields: HeaderFields) -> None:
        used = [name for name in fields.headers if self._reads(name)]
        for name in used:
            del fields.headers[name]
        if fields.repeated:  # requests with the same head share it
            fields.repeated = {name: values for name, values in fields.repeated.items() if name not in used}

    def _reads(self, name: bytes) -> bool:
        return name in self.user_names or name in self.groups or name.startswith(self.extra_prefixes)


def extra_key(name: bytes) -> str:
    """The rest of a lower-case header name, percent-decoded; a name with an invalid escape stays as it is."""
    if _BAD_ESCAPE.search(name) is None:
        try:
            return unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            pass
    return name.decode("latin-1")


def _values(fields: HeaderFields, header: bytes) -> list[bytes]:
    repeated = fields.repeated.get(header) if fields.repeated else None
    if repeated is not None:
        return repeated
    value = fields.headers.get(header)
    return [] if value is None else [value]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unauthorized from None

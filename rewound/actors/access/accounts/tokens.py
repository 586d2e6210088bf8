"""Service account tokens of one server: `TokenIssuer` issues them, `AccountTokens` authenticates them."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

import msgspec
import trio

from rewound.actors.access.accounts.claims import (
    ACCOUNTS,
    NODES,
    PODS,
    SECRETS,
    AccountOptions,
    Claims,
    InvalidClaims,
    Reference,
    Subject,
    bound_claims,
    read_bound,
    read_secret,
    secret_claims,
    user_of,
)
from rewound.actors.access.accounts.keys import (
    AccountKeys,
    KeyFiles,
    Keys,
    check_own_key,
    sign,
    unverified_issuer,
    verified_claims,
)
from rewound.actors.access.authentication.authenticate import Authenticated, Outcome, Refused
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import User
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.names import Names
from rewound.actors.runtime.clock import Clock, nanoseconds
from rewound.actors.selectors.facts import unpack_uids
from rewound.actors.store.document import decode, is_being_deleted
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import ISSUED_IDS, LEGACY_TOKENS_AUDITED, LEGACY_TOKENS_TRACKED
from rewound.journal.log import Journal
from rewound.journal.records import Event, Row


class Accounts(msgspec.Struct, frozen=True):
    keys: AccountKeys
    options: AccountOptions
    issuer: TokenIssuer
    tokens: AccountTokens


def build_accounts(
    names: Names, journal: Journal, feed: Feed, clock: Clock, files: KeyFiles, options: AccountOptions
) -> Accounts:
    keys = AccountKeys(files)
    if files.loaded_at_start:
        keys.load()
    else:
        check_own_key(files.own)
    tokens = AccountTokens(names, journal, feed, clock, keys, options)
    return Accounts(keys, options, TokenIssuer(names, keys, options), tokens)


class TokenIssuer:
    """Issues service account tokens: bound ones for TokenRequests, and those in token Secrets."""

    def __init__(self, names: Names, keys: AccountKeys, options: AccountOptions) -> None:
        self._names = names
        self._keys = keys
        self.options = options
        # Of the audit event of a request for a token.
        part = "issued-credential-id" if ISSUED_IDS in options.features else "credential-id"
        self.id_annotation = names.key(part, "authentication")

    async def bound_token(
        self,
        account: Reference,
        bound: Reference | None,
        audiences: tuple[str, ...],
        now: int,
        seconds: int,
        warn_after: int = 0,
        node: Reference | None = None,
        token_id: str = "",
    ) -> str:
        claims = bound_claims(
            *(self._names, account, bound, audiences, now, seconds, warn_after, node, token_id)
        )
        return await self._sign(claims, self.options.issuer)

    async def secret_token(self, account: Reference, secret: str) -> str:
        return await self._sign(secret_claims(self._names, account, secret), self._names.secret_token_issuer)

    async def _sign(self, claims: Claims, issuer: str) -> str:
        key = (await self._keys.get()).signing
        whole = {**claims, "iss": issuer}
        return await trio.to_thread.run_sync(sign, key, whole) if key.is_slow else sign(key, whole)


logger = logging.getLogger(__name__)

# About 30 MB of usual tokens. The oldest is evicted, and verified again when it is next used.
MAX_CACHED_TOKENS = 10_000
# Longer ones are verified with every request: users who may request tokens could fill the memory with long audiences.
MAX_CACHED_BYTES = 4096
MAX_LISTED = 20  # audiences in an error
# The texts of TokenReviews, as Kubernetes has them.
WRONG_SIGNATURE = "square/go-jose: error in cryptographic primitive"
WRONG_CLAIMS = "service account token claims could not be validated due to unexpected private claim"
_INVALIDATED: Final = (
    "the token in secret {0}/{1} for service account {0}/{2} has been marked invalid. Use tokens from the TokenRequest "
    "API or manually created secret-based tokens, or remove the '{3}' label from the secret to temporarily allow use "
    "of this token"
)
_GENERATED: Final = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated "
    "secret-based tokens."
)
EXPIRED, TOO_EARLY = "service account token has expired", "service account token is not valid yet"
_SECOND = 1_000_000_000  # nanoseconds
_DAY = 86400 * _SECOND
LEEWAY = 60 * _SECOND


@dataclass(slots=True)
class _Verified:
    """A token with a valid signature. Times are in nanoseconds, including the leeway."""

    subject: Subject
    user: User = field(repr=False)
    objects: tuple[ObjectKey, ...]
    result: Authenticated | None  # for requests to this server; None: another audience
    not_before: int
    expires: int
    warn_after: int
    checked_until: int = 0  # valid until then without reading the journal
    known_until: int = 0  # `result` is valid until then
    reported: bool = False  # the log has a warning that the token is used too long
    warnings: tuple[str, ...] = ()  # of each response
    annotations: tuple[tuple[str, str], ...] = ()  # of each audit event


class AccountTokens:
    """Authenticates service account tokens: signature, times, audience, and the objects that the token names.

    A verified token is cached with the time until which it is known to be valid: until it expires, or an object that it
    names has been deleted for a minute. After a change of such an object (the feed reports it before the writer gets
    its response) the next request reads the journal again. So a repeated token costs a lookup and two comparisons,
    which `Authenticator` makes for known headers, and a token still ends with the deletion of its account. The cache
    key is the token itself: Python's keyed hash of it costs a tenth of SHA-256, and its timing reveals as little.

    As in Kubernetes, `nbf` may be a minute ahead and `exp` a minute past: the clocks of two servers with the same keys
    may differ. `iat` is informative only (RFC 7519, section 4.1.6): it must be a number, and may be in the future.

    Where the version tracks tokens in Secrets, `used` is called with the Secret of a token that is first used on a day
    (UTC) and has no label of that day: what is known about such a token ends with the day.

    Implements `CachingMethod`.
    """

    def __init__(
        self,
        names: Names,
        journal: Journal,
        feed: Feed,
        clock: Clock,
        keys: AccountKeys,
        options: AccountOptions,
        max_cached: int = MAX_CACHED_TOKENS,
    ) -> None:
        self._names = names
        self.now = nanoseconds(clock)
        self._keys = keys
        self._options = options
        self._issuers = frozenset({*options.issuers, names.secret_token_issuer})
        self._legacy = f"{names.group('authentication')}/legacy-token"
        self._stale = f"{names.group('authentication')}/stale-token"
        self.last_used_label = names.key("legacy-token-last-used")
        self._invalid_since_label = names.key("legacy-token-invalid-since")
        self._tracks = options.lookup and LEGACY_TOKENS_TRACKED in options.features
        self._audits = LEGACY_TOKENS_AUDITED in options.features
        self.used: Callable[[Reference], None] = lambda secret: None
        self._references = References(journal)
        self._max_cached = max_cached
        self._verified: dict[bytes, _Verified] = {}
        self._named_by: dict[ObjectKey, set[bytes]] = {}  # the cached tokens that name an object
        feed.follow(self._observe, self._references.types)

    def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Outcome | Awaitable[Outcome]:
        known = self._verified.get(token)
        if known is not None:
            now = self.now()
            if known.not_before <= now < known.known_until and not audiences:
                return known.result or self._wrong_audience(known.subject, ())
            return self._check(known, token, audiences, now)
        if unverified_issuer(token) not in self._issuers:
            return None
        keys = self._keys.current
        if keys is None:
            return self._load_keys(token, audiences)
        return self._verify(keys, token, audiences)

    def cached(self, token: bytes) -> _Verified | None:
        return self._verified.get(token)

    async def _load_keys(self, token: bytes, audiences: tuple[str, ...]) -> Outcome:
        return self._verify(await self._keys.get(), token, audiences)

    def _verify(self, keys: Keys, token: bytes, audiences: tuple[str, ...]) -> Outcome:
        claims = verified_claims(token, keys)
        if claims is None:
            return Refused(WRONG_SIGNATURE)
        try:
            subject = (read_secret if self._is_of_secret(claims) else read_bound)(self._names, claims)
        except InvalidClaims:
            return Refused(WRONG_CLAIMS)
        verified = self._remember(token, subject)
        return self._check(verified, token, audiences, self.now())

    def _is_of_secret(self, claims: Claims) -> bool:
        """Whether a token is in a Secret. An operator may use the issuer of these for bound tokens, too."""
        if claims.get("iss") != self._names.secret_token_issuer:
            return False
        return self._names.secret_token_issuer not in self._options.issuers or (
            self._names.key_domain not in claims
        )

    def _remember(self, token: bytes, subject: Subject) -> _Verified:
        user = user_of(self._names, subject, self._options.features)
        objects = self._references.keys(subject)
        audiences = self._accepted_audiences(subject, ())
        verified = _Verified(
            subject,
            user,
            objects,
            None,
            _nanoseconds(subject.not_before, 0) - LEEWAY,
            _nanoseconds(subject.expires, FOR_EVER) + LEEWAY,
            _nanoseconds(subject.warn_after, FOR_EVER),
            annotations=() if subject.audiences else ((self._legacy, user.name),),
        )
        if audiences:
            verified.result = self._result(verified, audiences)
        if len(token) <= MAX_CACHED_BYTES:
            self._forget(token)  # several requests with this token may have waited for the keys
            if len(self._verified) >= self._max_cached:
                self._forget(next(iter(self._verified)))
            self._verified[token] = verified
            for one in objects:
                self._named_by.setdefault(one, set()).add(token)
        return verified

    def _forget(self, token: bytes) -> None:
        verified = self._verified.pop(token, None)
        if verified is None:
            return
        verified.checked_until = verified.known_until = 0  # changes of its objects are no longer reported
        for one in verified.objects:
            tokens = self._named_by[one]
            tokens.discard(token)
            if not tokens:
                del self._named_by[one]

    def _check(
        self, verified: _Verified, token: bytes, audiences: tuple[str, ...], now: int
    ) -> Authenticated | Refused:
        """Check a token with a valid signature: audience, times and objects."""
        subject = verified.subject
        accepted = self._accepted_audiences(subject, audiences)
        if now >= verified.expires:
            self._forget(token)
        if not accepted:
            return self._wrong_audience(subject, audiences)
        if now >= verified.expires:
            return Refused(EXPIRED)
        if now < verified.not_before:
            return Refused(TOO_EARLY)
        if now >= verified.checked_until:
            refused = self._look_up(verified, token, now)
            if refused is not None:
                return refused
        if now >= verified.warn_after:
            return self._used_too_long(verified, accepted, now)
        if not audiences and verified.result is not None:
            return verified.result
        return self._result(verified, accepted)

    def _result(self, verified: _Verified, audiences: tuple[str, ...]) -> Authenticated:
        return Authenticated(verified.user, verified.warnings, audiences, verified.annotations)

    def _used_too_long(self, verified: _Verified, audiences: tuple[str, ...], now: int) -> Authenticated:
        """Accept a projected volume's token that the pod should have re-read; each use is recorded."""
        name = verified.user.name
        if not verified.reported:
            verified.reported = True
            logger.warning(
                "%s uses a token after its requested time; its client must read its token file again", name
            )
        seconds = now // _SECOND - verified.warn_after // _SECOND
        stale = f"subject: {name}, seconds after warning threshold: {seconds}"
        return Authenticated(verified.user, audiences=audiences, annotations=((self._stale, stale),))

    def _wrong_audience(self, subject: Subject, requested: tuple[str, ...]) -> Refused:
        own = self._options.audiences
        of_token, wanted = _listed(subject.audiences or own), _listed(requested or own)
        return Refused(f"token audiences {of_token} is invalid for the target audiences {wanted}")

    def _look_up(self, verified: _Verified, token: bytes, now: int) -> Refused | None:
        """Read whether the objects that the token names exist; the result holds until one changes."""
        subject = verified.subject
        until = FOR_EVER
        if self._options.lookup or not subject.in_secret:
            until = self._references.valid_until(subject, token)
        if now >= until:
            return Refused(self._references.refusal(subject, token, now))
        if subject.in_secret and self._tracks:
            refused = self._track(verified, now)
            if refused is not None:
                return refused
            until = (now // _DAY + 1) * _DAY
        verified.checked_until = min(until, verified.expires)
        # Uses after the requested time are recorded one by one.
        verified.known_until = min(verified.checked_until, verified.warn_after)
        return None

    def _track(self, verified: _Verified, now: int) -> Refused | None:
        """Report the use of a token in a Secret, warn about a generated one, and refuse one that is marked."""
        account, secret = verified.subject.account, verified.subject.bound
        assert secret is not None
        labels, is_generated = self._references.marks(account, secret)
        day = datetime.fromtimestamp(now // _SECOND, UTC)
        near = [f"{one:%Y-%m-%d}" for one in (day, day + timedelta(days=1))]
        if labels.get(self.last_used_label) not in near:
            self.used(secret)
        if self._audits and labels.get(self._invalid_since_label):
            names = (secret.namespace, secret.name, account.name, self._invalid_since_label)
            annotation = (f"{self._legacy}-invalidated", f"{secret.name}/{secret.namespace}")
            return Refused(_INVALIDATED.format(*names), (annotation,))
        verified.warnings = (_GENERATED,) if is_generated else ()
        origin = "autogenerated" if is_generated else "manual"
        audited = ((f"{self._legacy}-{origin}-secret", secret.name),) if self._audits else ()
        verified.annotations = ((self._legacy, verified.user.name), *audited)
        if verified.result is not None:
            verified.result = self._result(verified, verified.result.audiences)
        return None

    def _accepted_audiences(self, subject: Subject, requested: tuple[str, ...]) -> tuple[str, ...]:
        """The requested audiences, or by default this server's, that the token is for."""
        own = self._options.audiences
        of_token = subject.audiences or own
        return tuple(one for one in requested or own if one in of_token)

    def _observe(self, events: Sequence[Event]) -> None:
        for event in events:
            for token in self._named_by.get((event.type_id, event.namespace, event.name), ()):
                verified = self._verified[token]
                verified.checked_until = verified.known_until = 0


def _listed(audiences: tuple[str, ...]) -> str:
    return f"[{' '.join(map(quoted_start, audiences[:MAX_LISTED]))}]"


def _nanoseconds(seconds: float | None, missing: int) -> int:
    """The first whole nanosecond at or after this time."""
    if seconds is None:
        return missing
    return min(ceil(seconds * _SECOND), FOR_EVER) if seconds < FOR_EVER else FOR_EVER


# Times are integers in nanoseconds since 1970: comparing an integer with a float takes far longer.
DELETION_LEEWAY = 60 * 1_000_000_000
FOR_EVER = 1 << 80

ObjectKey = tuple[int, str, str]  # type, namespace and name


class References:
    """Reads from the journal whether the objects of a token still exist: its account, and its Pod, Secret or Node.

    A token is rejected if one is gone, has another uid, or has been terminating for more than a minute. Tokens in
    Secrets are rejected as soon as the Secret or the account is being deleted, and unless the Secret still contains
    exactly that token.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._types = {plural: journal.type_id(plural) for plural in (ACCOUNTS, SECRETS, PODS, NODES)}

    @property
    def types(self) -> frozenset[int]:
        return frozenset(self._types.values())

    def keys(self, subject: Subject) -> tuple[ObjectKey, ...]:
        """The objects whose changes affect the token."""
        found = (subject.account,) if subject.bound is None else (subject.account, subject.bound)
        return tuple((self._types[one.plural], one.namespace, one.name) for one in found)

    def valid_until(self, subject: Subject, token: bytes) -> int:
        """The time from which the objects invalidate the token, unless they change; 0: now."""
        if subject.in_secret:
            return FOR_EVER if self._holds(subject, token) else 0
        until = self._exists_until(subject.account)
        return until if subject.bound is None else min(until, self._exists_until(subject.bound))

    def refusal(self, subject: Subject, token: bytes, now: int) -> str:
        """Why the objects invalidate a token, in Kubernetes' words."""
        account, bound = subject.account, subject.bound
        if subject.in_secret:
            assert bound is not None
            if self._exists_until(bound) != FOR_EVER:
                return "Token has been invalidated"
            if not self._is_in_secret(bound, token):
                return "Token does not match server's copy"
            return self._account_refusal(account, "ServiceAccount")
        if bound is None or self._exists_until(account) <= now:
            return self._account_refusal(account, "service account")
        row, kind = self._row(bound), bound.plural.removesuffix("s")
        uid = "" if row is None else unpack_uids(row.facts)[0]
        if not uid or uid == bound.uid:
            return "service account token has been invalidated"
        return f"{kind} UID ({uid}) does not match service account {kind} ref claim ({bound.uid})"

    def marks(self, account: Reference, secret: Reference) -> tuple[dict[str, str], bool]:
        """The labels of a token's Secret, and whether the account lists it, as accounts list generated ones."""
        rows = self._row(secret), self._row(account)
        stored, owner = ({} if row is None else decode(row.body) for row in rows)
        listed = any(one.get("name") == secret.name for one in owner.get("secrets") or ())
        return stored.get("metadata", {}).get("labels") or {}, listed

    def _account_refusal(self, account: Reference, kind: str) -> str:
        row = self._row(account)
        if row is None:
            return f'serviceaccounts "{account.name}" not found'
        uid = unpack_uids(row.facts)[0]
        if uid == account.uid:
            return f"{kind} {account.namespace}/{account.name} has been deleted"
        return f"{kind} UID ({uid}) does not match claim ({account.uid})"

    def _exists_until(self, reference: Reference) -> int:
        row = self._row(reference)
        if row is None or (reference.uid and unpack_uids(row.facts)[0] != reference.uid):
            return 0
        if not is_being_deleted(row.body):
            return FOR_EVER
        return micros_of(decode(row.body)["metadata"]["deletionTimestamp"]) * 1000 + DELETION_LEEWAY

    def _holds(self, subject: Subject, token: bytes) -> bool:
        """Whether the account exists, the Secret contains the token, and neither is being deleted."""
        assert subject.bound is not None
        if self._exists_until(subject.account) != FOR_EVER or self._exists_until(subject.bound) != FOR_EVER:
            return False
        return self._is_in_secret(subject.bound, token)

    def _is_in_secret(self, secret: Reference, token: bytes) -> bool:
        row = self._row(secret)
        data = {} if row is None else decode(row.body).get("data") or {}
        return bool(data.get("token") == base64.b64encode(token).decode())

    def _row(self, reference: Reference) -> Row | None:
        with self._journal.read() as view:
            return view.get(self._types[reference.plural], reference.namespace, reference.name)

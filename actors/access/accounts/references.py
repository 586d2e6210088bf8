"""Reads from the journal whether the objects that a token names still exist: its account, and its Pod, Secret or Node.

A token is refused if one is gone, has another uid, or has been deleted for more than a minute and waits for its
finalizers. Tokens in Secrets are refused as soon as the Secret or the account is being deleted, and unless the Secret
still holds that very token.
"""

from __future__ import annotations

import base64

from actors.access.accounts.claims import ACCOUNTS, NODES, PODS, SECRETS, Reference, Subject
from actors.kinds.values.times import micros_of
from actors.selectors.facts import unpack_uids
from actors.store.document import decode, is_being_deleted
from journal.log import Journal
from journal.records import Row

# Times are nanoseconds since 1970, in integers: comparing an integer with a float takes far longer.
DELETION_LEEWAY = 60 * 1_000_000_000
FOR_EVER = 1 << 80

ObjectKey = tuple[int, str, str]  # type, namespace and name


class References:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._types = {plural: journal.type_id(plural) for plural in (ACCOUNTS, SECRETS, PODS, NODES)}

    @property
    def types(self) -> frozenset[int]:
        return frozenset(self._types.values())

    def keys(self, subject: Subject) -> tuple[ObjectKey, ...]:
        """The objects whose changes decide about the token."""
        found = (subject.account,) if subject.bound is None else (subject.account, subject.bound)
        return tuple((self._types[one.plural], one.namespace, one.name) for one in found)

    def valid_until(self, subject: Subject, token: bytes) -> int:
        """The time from which the objects invalidate the token, unless they change; 0: now."""
        if subject.in_secret:
            return FOR_EVER if self._holds(subject, token) else 0
        until = self._exists_until(subject.account)
        return until if subject.bound is None else min(until, self._exists_until(subject.bound))

    def refusal(self, subject: Subject, token: bytes, now: int) -> str:
        """Why the objects invalidate a token, in the words of Kubernetes."""
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
        """Whether the account exists and the Secret holds the token; neither may be being deleted."""
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

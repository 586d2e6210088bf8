"""Requests to an etcd v3 cluster, their replies and their errors.

`rewound/cluster/etcd` implements `Etcd`: it chooses the member, sends the call and exchanges the password for a
token. Every call has a deadline. Until then it retries calls that change nothing, or are safe to repeat, at the other
members; it never repeats a transaction that may have been applied.

Keys and values are bytes. A range is [key, end): an empty `end` means the one key, `FROM_KEY` everything from the key,
and `prefix_end(key)` all keys that start with it. Replies contain the revision of the cluster when they were made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

FROM_KEY: Final = b"\0"  # as the end of a range


def prefix_end(prefix: bytes) -> bytes:
    """The end of the range of all keys that start with the prefix."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else FROM_KEY


# Tuples, because a watch or a list makes thousands of them.
class KeyValue(NamedTuple):
    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int  # 1 when the key was created; 0 for a delete
    lease: int = 0


class Event(NamedTuple):
    """For a delete, `now` has the key and the revision of the delete, and nothing else."""

    is_delete: bool
    now: KeyValue
    # Only with `prev_kv`; None if the key is new or its previous version is compacted.
    previous: KeyValue | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """`target operator given`. For a key that does not exist, all three numbers are 0 and no value is equal."""

    key: bytes
    target: Literal["mod_revision", "create_revision", "version", "value"]
    given: int | bytes  # bytes for a value
    operator: Literal["=", "!=", "<", ">"] = "="


@dataclass(frozen=True, slots=True)
class Put:
    key: bytes
    value: bytes
    lease: int = 0  # the key is deleted when this lease ends


@dataclass(frozen=True, slots=True)
class DeleteRange:
    key: bytes
    end: bytes = b""


@dataclass(frozen=True, slots=True)
class Get:
    """A range read inside a transaction. It sees the changes of the operations before it."""

    key: bytes
    end: bytes = b""
    revision: int = 0  # 0: the newest
    limit: int = 0  # 0: no limit
    keys_only: bool = False
    count_only: bool = False


Operation = Put | DeleteRange | Get


@dataclass(frozen=True, slots=True)
class RangeResult:
    kvs: tuple[KeyValue, ...]  # in the order of keys
    revision: int  # current revision of the cluster, also if the range was read at an older one
    more: bool  # the limit cut some off
    count: int  # all keys of the range


@dataclass(frozen=True, slots=True)
class PutResult:
    revision: int


@dataclass(frozen=True, slots=True)
class DeleteResult:
    revision: int
    deleted: int  # keys


OperationResult = RangeResult | PutResult | DeleteResult


@dataclass(frozen=True, slots=True)
class TxnResult:
    succeeded: bool  # the comparisons held, so `then` was done; otherwise `otherwise`
    # Of the transaction, if it changed something (the mod_revision of what it put); otherwise of the cluster.
    revision: int
    responses: tuple[OperationResult, ...]  # one for each operation that was done


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """Events in the order of their revisions.

    One revision has one event for each key that it changed. etcd splits a large response, even inside a revision:
    `partial` means that the next response continues this one. So a revision is complete when an event of a later one
    arrives, or a response that is not partial ends. This client drops and repeats nothing.
    """

    events: tuple[Event, ...]  # empty: the watch was created
    revision: int  # of the cluster when the member sent this; later responses may still have events up to it
    partial: bool = False


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status that an endpoint reports; only `endpoint` and `error` if it does not answer."""

    endpoint: str  # its URL
    error: str = ""
    cluster_id: int = 0
    member_id: int = 0
    version: str = ""
    leader: int = 0  # member id of the leader; 0 if it knows none
    revision: int = 0
    raft_term: int = 0
    raft_index: int = 0
    db_size: int = 0  # size of its file in bytes
    db_size_in_use: int = 0
    is_learner: bool = False
    alarms: tuple[str, ...] = ()  # such as "memberID:1 alarm:NOSPACE"


@dataclass(frozen=True, slots=True)
class Member:
    id: int
    name: str  # empty until it has started
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    is_learner: bool = False


class EtcdError(Exception):
    """Base of every error of this module. The text is a sentence without credentials."""


class EtcdUnavailable(EtcdError):
    """No member could do it before the deadline, and nothing was changed; or a watch lost its member."""


class OutcomeUnknown(EtcdError):
    """A transaction was sent, but its reply was lost or says that etcd does not know: it may be applied, now or soon.

    Only `Etcd.txn` raises it. To find out, read what the transaction would have written, at a later revision.
    """


class EtcdRefused(EtcdError):
    """etcd refuses, and would again: credentials, permissions, space, or the request itself."""


class EtcdFull(EtcdRefused):
    """etcd refuses all puts and new leases, because its database has reached its quota: the alarm NOSPACE."""

    def __init__(self) -> None:
        super().__init__(
            "etcd refused: mvcc: database space exceeded; compact it (etcdctl compact, up to the ModRevision of the "
            "key head) and defragment its members (etcdctl defrag), or start them with a larger "
            "--quota-backend-bytes; then etcdctl alarm disarm"
        )


class Compacted(EtcdError):
    """The revision of a read or a watch is compacted. `revision` is the oldest that etcd has; 0 if it did not say."""

    def __init__(self, revision: int) -> None:
        oldest = (
            f"the oldest that it still has is {revision}" if revision else "it did not say which it still has"
        )
        super().__init__(f"etcd has compacted the requested revision: {oldest}")
        self.revision = revision


class LeaseGone(EtcdError):
    """The lease has expired or was revoked, and its keys are deleted."""

    def __init__(self, lease: int) -> None:
        super().__init__(f"the lease {lease:x} of etcd has expired or was revoked")
        self.lease = lease


class Etcd(Protocol):
    """Every method can raise EtcdUnavailable and EtcdRefused, besides the errors that it names."""

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        """Raises OutcomeUnknown (if it writes), Compacted (a `Get` of an old revision) or LeaseGone (a `Put`)."""

    async def range(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        revision: int = 0,
        limit: int = 0,
        serializable: bool = False,
        keys_only: bool = False,
        count_only: bool = False,
    ) -> RangeResult:
        """Read a range, linearizable; or `serializable`: from one member, which may be behind the others.

        Raises Compacted if the revision is.
        """

    def watch(
        self, key: bytes, end: bytes, start_revision: int, *, prev_kv: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchResponse]]:
        """Events from `start_revision` on (0: from now on), over one stream to one member.

        Entering raises the error of the first response, if it has one; otherwise the iterator yields that response
        first, without events. The iterator ends only with an error: EtcdUnavailable if the stream ends, or its member
        is silent or has no leader; Compacted. It never resumes: the caller watches again from the revision that it
        needs next.
        """

    async def grant(self, ttl: int) -> int:
        """Create a lease of this many seconds; returns its id. If the reply is lost, the lease expires unused."""

    async def keep_alive(self, lease: int) -> int:
        """Renew the lease once; returns its remaining seconds. Raises LeaseGone if it has expired or was revoked."""

    async def revoke(self, lease: int) -> None:
        """End the lease and delete its keys. Does nothing if it is already gone."""

    async def compact(self, revision: int) -> None:
        """Compact up to the revision. Raises Compacted if that was already done, EtcdRefused if it is in the future."""

    async def status(self) -> tuple[MemberStatus, ...]:
        """Every configured endpoint, in order; one that fails has an `error`. Raises nothing."""

    async def members(self) -> tuple[Member, ...]: ...

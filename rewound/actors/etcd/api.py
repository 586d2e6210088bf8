"""Requests to an etcd v3 cluster, their replies, and why one failed.

The gateway implements `Etcd` (`gateway/etcd`): which member is asked, how a call travels and how a password becomes a
token is its business. Every call has a deadline. Calls that change nothing, or that can be repeated without harm, are
repeated at the other members until then; a transaction that may have been applied is never repeated.

Keys and values are bytes. A range is [key, end): an empty `end` means the one key, `FROM_KEY` everything from the key,
and `prefix_end(key)` all keys that begin with it. Replies say the revision of the cluster when they were made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

FROM_KEY: Final = b"\0"  # as the end of a range


def prefix_end(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin with the prefix."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else FROM_KEY


# Tuples, because a watch or a list makes thousands of them.
class KeyValue(NamedTuple):
    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int  # 1 when the key was created; 0 of a delete
    lease: int = 0


class Event(NamedTuple):
    """Of a delete, `now` has the key and the revision of the delete, and nothing else."""

    is_delete: bool
    now: KeyValue
    previous: KeyValue | None = (
        None  # with `prev_kv`, unless the key is new or its former version is compacted
    )


@dataclass(frozen=True, slots=True)
class Compare:
    """`target operator given`. Of a key that does not exist all three numbers are 0, and no value is equal."""

    key: bytes
    target: Literal["mod_revision", "create_revision", "version", "value"]
    given: int | bytes  # bytes for a value
    operator: Literal["=", "!=", "<", ">"] = "="


@dataclass(frozen=True, slots=True)
class Put:
    key: bytes
    value: bytes
    lease: int = 0  # with which the key is deleted


@dataclass(frozen=True, slots=True)
class DeleteRange:
    key: bytes
    end: bytes = b""


@dataclass(frozen=True, slots=True)
class Get:
    """A range inside a transaction: what it finds includes the changes of the operations before it."""

    key: bytes
    end: bytes = b""
    revision: int = 0  # 0: the newest
    limit: int = 0  # 0: none
    keys_only: bool = False
    count_only: bool = False


Operation = Put | DeleteRange | Get


@dataclass(frozen=True, slots=True)
class RangeResult:
    kvs: tuple[KeyValue, ...]  # in the order of keys
    revision: int  # of the cluster now, also if the range was read at an older one
    more: bool  # the limit left some out
    count: int  # of all keys of the range


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
    succeeded: bool  # the comparisons held: `then` was done, and `otherwise` if not
    # Of the transaction if it changed something, which is the mod_revision of what it put; else of the cluster.
    revision: int
    responses: tuple[OperationResult, ...]  # one for each operation that was done


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """Events in the order of their revisions.

    One revision has one event for each key that it changed. etcd splits a large response, also inside a revision:
    `partial` says that the next response goes on with this one. So a revision is whole when an event of a later one
    arrives or a response that is not partial has ended. Nothing is left out or repeated here that etcd sent.
    """

    events: tuple[Event, ...]  # none: the watch was created
    revision: int  # of the cluster when the member sent this: events up to it may be in later responses
    partial: bool = False


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What one endpoint says of itself; only `endpoint` and `error` if it does not answer."""

    endpoint: str  # its URL
    error: str = ""
    cluster_id: int = 0
    member_id: int = 0
    version: str = ""
    leader: int = 0  # the member id of the leader; 0: it knows none
    revision: int = 0
    raft_term: int = 0
    raft_index: int = 0
    db_size: int = 0  # bytes of its file
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
    """No member could do it before the deadline, and nothing was changed; or a watch has lost its member."""


class OutcomeUnknown(EtcdError):
    """A transaction was sent, and its reply was lost or says that etcd does not know: it may be applied, now or soon.

    Only `Etcd.txn` raises it. Who needs to know reads what the transaction would have written, at a later revision.
    """


class EtcdRefused(EtcdError):
    """etcd will not do it, however often it is asked: credentials, rights, space, or the request itself."""


class Compacted(EtcdError):
    """The revision of a read or a watch is compacted. `revision`: the oldest that etcd has; 0 if it did not say."""

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
    """Every method raises EtcdUnavailable and EtcdRefused, and besides what it names."""

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        """OutcomeUnknown, unless it only reads; Compacted for a `Get` of an old revision; LeaseGone for a `Put`."""

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
        """Linearizable, or `serializable`: what one member has, which may be old, without asking the others.

        Compacted.
        """

    def watch(
        self, key: bytes, end: bytes, start_revision: int, *, prev_kv: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchResponse]]:
        """Events from `start_revision` on (0: from now on), over one stream to one member.

        Entering raises what the first response says, which the iterator yields without events. The iterator ends only
        by an error: EtcdUnavailable when the stream ends, or its member is silent or has no leader; Compacted. It
        resumes nothing: the caller watches again from the revision that it needs next.
        """

    async def grant(self, ttl: int) -> int:
        """The id of a new lease, for so many seconds. If its reply is lost, the lease expires without an owner."""

    async def keep_alive(self, lease: int) -> int:
        """Renew it once; the seconds that it now has. LeaseGone."""

    async def revoke(self, lease: int) -> None:
        """End it and delete its keys; nothing happens if it has gone already."""

    async def compact(self, revision: int) -> None:
        """Forget what was overwritten before the revision. Compacted if that was done; EtcdRefused if in future."""

    async def status(self) -> tuple[MemberStatus, ...]:
        """Of every configured endpoint, in their order; an endpoint that fails has an `error`. Raises nothing."""

    async def members(self) -> tuple[Member, ...]: ...

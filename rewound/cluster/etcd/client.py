"""The `Etcd` of a server: each method is one request of etcd's API.

`run` needs its own task for as long as the client is used: connections live in it, and calls wait for it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import trio

from rewound.actors.access.remote.deadlines import TooSlow
from rewound.actors.etcd.api import (
    Compacted,
    Compare,
    EtcdError,
    EtcdUnavailable,
    Get,
    LeaseGone,
    Member,
    MemberStatus,
    Operation,
    Put,
    RangeResult,
    TxnResult,
    WatchResponse,
)
from rewound.actors.runtime.turns import Turn
from rewound.cluster.etcd.cluster import CALL_SECONDS, Cluster, EtcdStatistics, fields
from rewound.cluster.etcd.connection import Exchange
from rewound.cluster.etcd.encoding import (
    WatchReply,
    grant_result,
    keep_alive_result,
    members_result,
    number_request,
    range_request,
    range_result,
    txn_request,
    txn_result,
    watch_reply,
    watch_request,
    watch_response,
)
from rewound.cluster.etcd.member import MemberClient
from rewound.cluster.etcd.replies import Lost, NotDone, cancelled


class EtcdClient:
    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: ssl.SSLContext | None = None,
        user: str = "",
        password: str = "",
        seconds: float = CALL_SECONDS,
    ) -> None:
        """`endpoints`: client URLs of members. `tls`: for https URLs. `seconds`: limit of a call, over all members."""
        self._cluster = Cluster(endpoints, tls, user, password, seconds)

    def statistics(self) -> EtcdStatistics:
        return self._cluster.statistics()

    async def run(self) -> None:
        """Keep connections, and give up members that have stopped responding, until cancelled."""
        await self._cluster.run()

    # Keys.

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        request = txn_request(compares, then, otherwise)
        operations = (*then, *otherwise)
        reads = all(isinstance(one, Get) for one in operations)
        try:
            return txn_result(await self._cluster.call("/etcdserverpb.KV/Txn", request, repeatable=reads))
        except LeaseGone:
            lease = next((one.lease for one in operations if isinstance(one, Put) and one.lease), 0)
            raise LeaseGone(lease) from None

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
        get = Get(key, end, revision, limit, keys_only, count_only)
        body = range_request(get, serializable=serializable)
        return await range_result(
            await self._cluster.call("/etcdserverpb.KV/Range", body, leader=not serializable)
        )

    def watch(
        self, key: bytes, end: bytes, start_revision: int, *, prev_kv: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchResponse]]:
        return Watch(self._cluster, watch_request(key, end, start_revision, prev_kv=prev_kv))

    async def compact(self, revision: int) -> None:
        await self._cluster.call("/etcdserverpb.KV/Compact", number_request(revision))

    # Leases.

    async def grant(self, ttl: int) -> int:
        reply = await self._cluster.call("/etcdserverpb.Lease/LeaseGrant", number_request(ttl))
        return grant_result(reply)

    async def keep_alive(self, lease: int) -> int:
        reply = await self._cluster.call("/etcdserverpb.Lease/LeaseKeepAlive", number_request(lease))
        seconds = keep_alive_result(reply)
        if seconds <= 0:
            raise LeaseGone(lease)
        return seconds

    async def revoke(self, lease: int) -> None:
        try:
            await self._cluster.call("/etcdserverpb.Lease/LeaseRevoke", number_request(lease))
        except LeaseGone:
            pass

    # The cluster.

    async def status(self) -> tuple[MemberStatus, ...]:
        found: dict[str, MemberStatus] = {}

        async def ask(member: MemberClient) -> None:
            try:
                found[member.url] = await self._cluster.status(member)
            except (NotDone, Lost, EtcdError) as error:
                found[member.url] = MemberStatus(member.url, str(error))

        async with trio.open_nursery() as nursery:
            for member in self._cluster.members:
                nursery.start_soon(ask, member)
        return tuple(found[member.url] for member in self._cluster.members)

    async def members(self) -> tuple[Member, ...]:
        return members_result(await self._cluster.call("/etcdserverpb.Cluster/MemberList", b""))


class Watch:
    """A watch of etcd, one stream of one member: an async context manager, and the iterator that it returns."""

    def __init__(self, cluster: Cluster, request: bytes) -> None:
        self._cluster = cluster
        self._request = request
        self._member: MemberClient | None = None
        self._exchange: Exchange | None = None
        self._first: WatchReply | None = None
        self._turn = Turn()

    async def __aenter__(self) -> Watch:
        deadline = trio.current_time() + self._cluster.seconds
        self._member, self._exchange, self._first = await self._cluster.anywhere(self._open, deadline)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._member is not None and self._exchange is not None:
            self._member.end(self._exchange)

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> WatchResponse:
        assert self._member is not None and self._exchange is not None
        reply, self._first = self._first, None
        try:
            if reply is None:
                reply = _checked(await self._exchange.message())
        except (NotDone, Lost, TooSlow) as error:
            self._cluster.avoid(self._member)
            why = str(error) or "no reply in time"
            raise EtcdUnavailable(f"the watch of etcd has ended: {self._member.url}: {why}") from None
        response = await watch_response(reply)
        if self._turn.over():
            await trio.lowlevel.checkpoint()
            self._turn = Turn()
        return response

    async def _open(self, member: MemberClient, deadline: float) -> tuple[MemberClient, Exchange, WatchReply]:
        async def attempt(token: str) -> tuple[MemberClient, Exchange, WatchReply]:
            metadata = fields(token, leader=True)
            exchange = await member.start(
                "/etcdserverpb.Watch/Watch", metadata, self._request, deadline, ends=False
            )
            try:
                with trio.CancelScope(deadline=deadline):
                    return member, exchange, _checked(await exchange.message())
                raise Lost("no reply in time")
            except BaseException:
                member.end(exchange)
                raise

        return await self._cluster.authorized(member, deadline, attempt)


def _checked(message: bytes) -> WatchReply:
    """Decode a reply. Raises Compacted, or the error for which etcd cancelled the watch."""
    reply = watch_reply(message)
    if reply.cancelled:
        raise Compacted(reply.compact_revision) if reply.compact_revision else cancelled(reply.reason)
    return reply

"""The `Etcd` of a server, by etcd's JSON API: each method is one request of it.

`run` belongs into a task of its own, for as long as the client is used: without it calls at a member that has stopped
responding end only with their time.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

import orjson
import trio

from actors.etcd.api import (
    Compare,
    EtcdError,
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
from gateway.etcd.cluster import CALL_SECONDS, Cluster, EtcdStatistics
from gateway.etcd.encoding import (
    members_result,
    range_request,
    range_result,
    txn_request,
    txn_result,
    watch_request,
)
from gateway.etcd.member import MemberClient
from gateway.etcd.replies import Lost, NotDone
from gateway.etcd.watch import Watch


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
        """`endpoints`: client URLs of members. `tls`: for those of https. `seconds`: for one call at all members."""
        self._cluster = Cluster(endpoints, tls, user, password, seconds)

    def statistics(self) -> EtcdStatistics:
        return self._cluster.statistics()

    async def run(self) -> None:
        """Give up members that have stopped responding, until cancelled; then close idle connections."""
        await self._cluster.run()

    # Keys.

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        body = txn_request(compares, then, otherwise)
        operations = (*then, *otherwise)
        lease = next((one.lease for one in operations if isinstance(one, Put) and one.lease), 0)
        reads = all(isinstance(one, Get) for one in operations)
        return txn_result(await self._cluster.call("/v3/kv/txn", body, lease=lease, repeatable=reads))

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
        return await range_result(await self._cluster.call("/v3/kv/range", body, leader=not serializable))

    def watch(
        self, key: bytes, end: bytes, start_revision: int, *, prev_kv: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchResponse]]:
        return Watch(self._cluster, watch_request(key, end, start_revision, prev_kv=prev_kv))

    async def compact(self, revision: int) -> None:
        await self._cluster.call("/v3/kv/compaction", orjson.dumps({"revision": str(revision)}))

    # Leases.

    async def grant(self, ttl: int) -> int:
        reply = await self._cluster.call("/v3/lease/grant", orjson.dumps({"TTL": str(ttl)}))
        return int(reply["ID"])

    async def keep_alive(self, lease: int) -> int:
        reply = await self._cluster.call("/v3/lease/keepalive", orjson.dumps({"ID": str(lease)}))
        seconds = int(reply.get("result", {}).get("TTL", 0))
        if seconds <= 0:
            raise LeaseGone(lease)
        return seconds

    async def revoke(self, lease: int) -> None:
        try:
            await self._cluster.call("/v3/lease/revoke", orjson.dumps({"ID": str(lease)}), lease=lease)
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
        return members_result(await self._cluster.call("/v3/cluster/member/list", b"{}"))

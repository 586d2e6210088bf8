"""A watch of etcd: one stream of one member."""

from __future__ import annotations

from types import TracebackType

import trio

from rewound.actors.access.remote.deadlines import TooSlow
from rewound.actors.etcd.api import Compacted, EtcdUnavailable, WatchResponse
from rewound.actors.runtime.turns import Turn
from rewound.cluster.etcd.cluster import Cluster, fields
from rewound.cluster.etcd.connection import Exchange
from rewound.cluster.etcd.encoding import WatchReply, watch_reply, watch_response
from rewound.cluster.etcd.member import MemberClient
from rewound.cluster.etcd.replies import Lost, NotDone, cancelled


class Watch:
    """An async context manager, and the iterator that it returns."""

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

"""A watch: one request to one member, and its response as a stream of JSON documents, one in each line."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, Final

import orjson
import trio

from actors.access.remote.deadlines import TooSlow
from actors.etcd.api import Compacted, EtcdUnavailable, WatchResponse
from actors.runtime.turns import Turn
from gateway.etcd.cluster import Cluster, headers
from gateway.etcd.encoding import Document, events_of, revision_of
from gateway.etcd.member import MemberClient
from gateway.etcd.replies import Lost, NotDone, cancelled, error_of, stream_error
from gateway.outgoing.response import ResponseError, ResponseReader
from gateway.outgoing.streams import ByteStream

# etcd splits responses of more than 2 MB, but not the events of one revision that are larger, nor a previous value.
MAX_LINE: Final = 64 << 20
MAX_ERROR: Final = 1 << 16


class Watch:
    """An async context manager, and the iterator that it returns."""

    def __init__(self, cluster: Cluster, request: bytes) -> None:
        self._cluster = cluster
        self._request = request
        self._stream: _Stream | None = None
        self._turn = Turn()

    async def __aenter__(self) -> Watch:
        deadline = trio.current_time() + self._cluster.seconds
        self._stream = await self._cluster.anywhere(self._open, deadline)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> WatchResponse:
        assert self._stream is not None
        try:
            result = await self._stream.next()
            events = await events_of(result)
        except (NotDone, Lost) as error:
            member = self._stream.member
            self._cluster.avoid(member)
            raise EtcdUnavailable(f"the watch of etcd has ended: {member.url}: {error}") from None
        if self._turn.over():
            await trio.lowlevel.checkpoint()
            self._turn = Turn()
        return WatchResponse(events, revision_of(result), bool(result.get("fragment")))

    async def _open(self, member: MemberClient, deadline: float) -> _Stream:
        async def attempt(token: str) -> _Stream:
            stream = _Stream(member, await member.connect(deadline))
            try:
                with trio.CancelScope(deadline=deadline):
                    await stream.start(headers(token, leader=True), self._request)
                    return stream
                raise Lost("no reply in time")
            except BaseException:
                stream.close()
                raise

        return await self._cluster.authorized(member, deadline, attempt)


class _Stream:
    def __init__(self, member: MemberClient, connection: ByteStream) -> None:
        self.member = member
        self._connection = connection
        self._reader = ResponseReader(connection)
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []  # the beginning of a line
        self._first: Document | None = None

    async def start(self, fields: dict[str, str], body: bytes) -> None:
        """Read the first response: whether the watch was created."""
        status = await self.member.start(self._connection, self._reader, "/v3/watch", fields, body)
        if status != 200:
            raise error_of(status, await self._error_body())
        self._first = await self.next()

    async def next(self) -> Document:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        while not self._lines:
            self._split(await self._part())
        try:
            document: Any = orjson.loads(self._lines.popleft())
            result: Document | None = document.get("result")
        except (ValueError, AttributeError):
            raise Lost("what it sent is no JSON object") from None
        if result is None:
            raise stream_error(document)
        if result.get("canceled"):
            if oldest := int(result.get("compact_revision", 0)):
                raise Compacted(oldest)
            raise cancelled(str(result.get("cancel_reason", "")))
        return result

    def close(self) -> None:
        self.member.end(self._connection)

    def _split(self, part: bytes) -> None:
        if b"\n" not in part:
            self._rest.append(part)
            if sum(map(len, self._rest)) > MAX_LINE:
                raise Lost(f"it sent a response of more than {MAX_LINE} bytes")
            return
        self._rest.append(part)
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._lines.extend(line for line in lines if line)
        self._rest = [rest] if rest else []

    async def _part(self) -> bytes:
        try:
            part = await self._reader.part()
        except (OSError, ResponseError, TooSlow) as error:
            raise self.member.lost(error) from None
        if not part:
            raise Lost("it ended the stream")
        self.member.heard = trio.current_time()
        return part

    async def _error_body(self) -> bytes:
        body = b""
        try:
            while len(body) < MAX_ERROR and (part := await self._reader.part()):
                body += part
        except (OSError, ResponseError, TooSlow):
            pass  # what has arrived may say enough
        return body

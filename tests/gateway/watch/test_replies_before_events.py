"""A client gets the reply to its write before a watcher gets the event: compared by when the kernel got the bytes."""

from __future__ import annotations

import socket
import struct
from functools import partial
from itertools import count

import h2.config
import h2.connection
import pytest
import trio

from tests.gateway.api import ADMIN
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
WRITES = 20  # with a random order, all would be right once in a million runs
SECONDS = 60  # at most until the kernel records times
SO_TIMESTAMPNS = 35  # Linux's; the module `socket` has no name for it


class Arrivals:
    """A connection that knows when the newest bytes arrived, in nanoseconds.

    The kernel starts to record times a moment after the first connection asks for them, on a busy machine seconds: the
    first packets may have none.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.socket = stream.socket
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    async def until(self, text: bytes) -> int | None:
        """When the last bytes of `text` arrived, if the kernel recorded it."""
        received = b""
        while text not in received:
            data, ancillary, *_ = await self.socket.recvmsg(1 << 16, 256)
            assert data, "the server closed the connection"
            received += data
        if not ancillary:
            return None
        [(_, _, stamp)] = ancillary
        seconds, nanoseconds = struct.unpack("@ll", stamp)
        return int(seconds * 10**9 + nanoseconds)


def http1(method: str, path: str, body: bytes = b"") -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: test", f"Authorization: Bearer {ADMIN}")
    framing = ("Content-Type: application/json", f"Content-Length: {len(body)}", "", "")
    return "\r\n".join((*lines, *framing)).encode() + body


class Http2:
    """Encodes requests; what twenty small responses take fits into the windows of a new connection."""

    def __init__(self) -> None:
        self._connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._connection.initiate_connection()

    def encode(self, method: str, path: str, body: bytes = b"") -> bytes:
        connection = self._connection
        number = connection.get_next_available_stream_id()
        fields = {":method": method, ":path": path, ":scheme": "http", ":authority": "test"}
        fields |= {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
        connection.send_headers(number, list(fields.items()), end_stream=not body)
        if body:
            connection.send_data(number, body, end_stream=True)
        return connection.data_to_send()


@pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
async def test_writer_has_its_reply_before_a_watcher_has_the_event(protocol: str) -> None:
    async with shared("configmaps") as api:
        assert api.addresses.insecure is not None
        connect = partial(trio.open_tcp_stream, *api.addresses.insecure)
        async with await connect() as writing, await connect() as watching:
            writer, watcher = Arrivals(writing), Arrivals(watching)
            encode_write, encode_watch = (
                (http1, http1) if protocol == "HTTP/1.1" else (Http2().encode, Http2().encode)
            )
            await watching.send_all(encode_watch("GET", f"{PATH}?watch=1&resourceVersion=0"))
            leads: list[int] = []
            end = trio.current_time() + SECONDS
            for number in count():
                name = b"written-%d-" % number
                body = b'{"metadata":{"name":"%bx"}}' % name
                await writing.send_all(encode_write("POST", PATH, body))
                event, reply = await watcher.until(name), await writer.until(name)
                if number == 0:
                    continue  # the watch may have begun after that write, and have sent it as an existing object
                if event is not None and reply is not None:
                    leads.append(event - reply)
                else:
                    assert trio.current_time() < end, "the kernel notes no times of packets"
                    await trio.sleep(0.02)
                if len(leads) == WRITES:
                    break
            assert min(leads) > 0, leads

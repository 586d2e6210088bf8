"""Streams of the client that end early."""

from __future__ import annotations

import gc
import warnings
from functools import partial

import trio

from rewound.client.kubeconfig import Overrides, load_target
from rewound.client.streaming import StreamingSession


async def _serve(stream: trio.SocketStream) -> None:
    """A response that never ends."""
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await stream.send_all(b"2\r\nx\n\r\n")
    await trio.sleep_forever()


async def test_stream_that_is_cancelled_while_its_data_are_handled() -> None:
    """Its iterators are closed, not left to the garbage collector."""
    handling = trio.Event()

    async def take(_: bytes) -> None:
        handling.set()
        await trio.sleep_forever()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with trio.open_nursery() as nursery:
            [listener] = await nursery.start(partial(trio.serve_tcp, _serve, 0, host="127.0.0.1"))
            url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
            session = StreamingSession(load_target(Overrides(server=url)))
            async with trio.open_nursery() as inner:
                inner.start_soon(session.read_lines, "/", 60.0, take)
                await handling.wait()
                inner.cancel_scope.cancel()
            await session.aclose()
            nursery.cancel_scope.cancel()
        gc.collect()
        await trio.lowlevel.checkpoint()
    assert [str(one.message) for one in caught] == []

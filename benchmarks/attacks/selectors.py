"""Watches with thousands of distinct selectors, and writes that none of them matches; thousands of new watches."""

from __future__ import annotations

import json
import ssl

import h2.config
import h2.connection
import trio

from benchmarks.attacks.target import ADMIN, READ, Run, Target, attacks, head, many, post

PATH = "/api/v1/namespaces/default/configmaps"
CONNECTIONS, STREAMS = 20, 250


async def _watch(target: Target, first: int, opened: trio.MemorySendChannel[None]) -> None:
    stream = await target.connect()
    http2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    http2.initiate_connection()
    for number in range(STREAMS):
        fields = [
            (":method", "GET"),
            (":path", f"{PATH}?watch=true&labelSelector=app%3Dnone-{first + number}"),
            (":scheme", "http"),
            (":authority", "rewound"),
            ("authorization", f"Bearer {ADMIN}"),
        ]
        http2.send_headers(2 * number + 1, fields, end_stream=True)
    await stream.send_all(http2.data_to_send())
    await opened.send(None)
    while data := await stream.receive_some(65536):
        http2.receive_data(data)
        await stream.send_all(http2.data_to_send())


async def _many_selectors(target: Target) -> None:
    send, receive = trio.open_memory_channel[None](0)
    async with trio.open_nursery() as nursery:
        for index in range(CONNECTIONS):
            nursery.start_soon(_watch, target, index * STREAMS, send)
            await receive.receive()
        meta = {"generateName": "x-", "labels": {"app": "other"}}
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}).encode()
        await many(target, 4, post(PATH, body))
        nursery.cancel_scope.cancel()


NEW_WATCHES, AT_ONCE = 5000, 300


async def _new_watches(target: Target) -> None:
    """Watches with a TLS connection each, as fast as this process can connect."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # loopback only
    connecting, opened = trio.CapacityLimiter(AT_ONCE), list[object]()

    async def watch() -> None:
        try:
            async with connecting:
                stream = await target.connect_secure(context)
                await stream.send_all(head("GET", f"{PATH}?watch=true"))
                await stream.receive_some(READ)
            opened.append(stream)
        except (trio.BrokenResourceError, OSError):
            pass

    async with trio.open_nursery() as nursery:
        for _ in range(NEW_WATCHES):
            nursery.start_soon(watch)
        await target.over()
        nursery.cancel_scope.cancel()


_SELECTORS: dict[str, Run] = {"writes beside 5,000 distinct watch selectors": _many_selectors}
_BURSTS: dict[str, Run] = {"5,000 new watches over TLS; the other connects anew": _new_watches}
WATCHERS = {
    **attacks("users who may watch", _SELECTORS),
    **attacks("users who may watch", _BURSTS, connects=True),
}

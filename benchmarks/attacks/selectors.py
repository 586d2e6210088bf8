"""Watches with thousands of distinct selectors, and writes that none of them matches."""

from __future__ import annotations

import json

import h2.config
import h2.connection
import trio

from benchmarks.attacks.target import ADMIN, Run, Target, attacks, many, post

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


_SELECTORS: dict[str, Run] = {"writes beside 5,000 distinct watch selectors": _many_selectors}
WATCHERS = attacks("who may watch", _SELECTORS)

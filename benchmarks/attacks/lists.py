"""Lists of a large collection: costly selectors and representations, and responses that nobody reads."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable

import h2.config
import h2.connection
import h2.settings
import trio

from benchmarks.attacks.target import ADMIN, Target, head, many

Attack = Callable[[Target], Awaitable[None]]
# `prepare` fills it; 60,000 objects of about 0.7 kB.
COLLECTION = "/api/v1/namespaces/many/configmaps"
UNREAD = 60
ZERO_WINDOW = 800


def _table(kind: str) -> str:
    return f"Accept: application/json;as={kind};v=v1;g=meta.cluster.io"


def _gets(path: str, *headers: str, connections: int = 2) -> Attack:
    async def attack(target: Target) -> None:
        await many(target, connections, head("GET", path, *headers))

    return attack


def _selector() -> str:
    terms = ",".join(f"k{i} notin (a,b,c,d)" for i in range(600))
    return f"{COLLECTION}?labelSelector={urllib.parse.quote(terms + ',none=x', safe=',()')}"


async def _unread(target: Target) -> None:
    """Ask for the whole list on many connections, and never read."""
    streams = []
    for _ in range(UNREAD):
        stream = await target.connect()
        await stream.send_all(head("GET", COLLECTION))
        streams.append(stream)
    await target.over()
    for stream in streams:
        await stream.aclose()


async def _zero_window(target: Target) -> None:
    """Ask for the list on HTTP/2 streams whose windows are closed."""
    async with trio.open_nursery() as nursery:
        for _ in range(ZERO_WINDOW // 200):
            nursery.start_soon(_closed_connection, target)
        await target.over()
        nursery.cancel_scope.cancel()


async def _closed_connection(target: Target) -> None:
    stream = await target.connect()
    http2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    http2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    http2.initiate_connection()
    for number in range(200):
        fields = [
            (":method", "GET"),
            (":path", f"{COLLECTION}?limit=4000"),
            (":scheme", "http"),
            (":authority", "rewound"),
            ("authorization", f"Bearer {ADMIN}"),
        ]
        http2.send_headers(2 * number + 1, fields, end_stream=True)
    await stream.send_all(http2.data_to_send())
    while data := await stream.receive_some(65536):
        http2.receive_data(data)
        await stream.send_all(http2.data_to_send())


LISTS: dict[str, Attack] = {
    "list of 60,000 with a selector of 15 kB": _gets(_selector()),
    "Table of 60,000": _gets(COLLECTION, _table("Table")),
    "PartialObjectMetadataList of 60,000": _gets(COLLECTION, _table("PartialObjectMetadataList")),
    "list of 60,000, pretty": _gets(f"{COLLECTION}?pretty=true"),
    "list of 60,000 in YAML": _gets(COLLECTION, "Accept: application/yaml"),
    "list of 60,000 in protobuf": _gets(COLLECTION, "Accept: application/vnd.cluster.protobuf"),
    "60 lists of 43 MB, unread": _unread,
    "800 HTTP/2 lists with closed windows": _zero_window,
}

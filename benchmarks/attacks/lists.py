"""Lists of a large collection: costly selectors and representations, and responses that are never read."""

from __future__ import annotations

import random
import urllib.parse
from functools import partial

import h2.config
import h2.connection
import h2.settings
import trio

from benchmarks.attacks.target import ADMIN, Run, Target, attacks, head, many, read_response, unread

# `prepare` fills it; 60,000 objects of about 0.7 kB.
COLLECTION = "/api/v1/namespaces/many/configmaps"
OBJECTS = 60_000
UNREAD = 60
ZERO_WINDOW = 800


def _table(kind: str) -> str:
    return f"Accept: application/json;as={kind};v=v1;g=meta.cluster.io"


def _gets(path: str, *headers: str, connections: int = 2) -> Run:
    async def attack(target: Target) -> None:
        await many(target, connections, head("GET", path, *headers))

    return attack


def _selector() -> str:
    terms = ",".join(f"k{i} notin (a,b,c,d)" for i in range(600))
    return f"{COLLECTION}?labelSelector={urllib.parse.quote(terms + ',none=x', safe=',()')}"


def _negations() -> str:
    terms = ",".join(f"!k{i}" for i in range(2600))
    return f"{COLLECTION}?labelSelector={urllib.parse.quote(terms, safe=',')}"


async def _exact(target: Target) -> None:
    """Whole lists at exact versions, a different one each time."""
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(_versions, target, random.Random(number))
        await target.over()
        nursery.cancel_scope.cancel()


async def _past(target: Target) -> None:
    """The same with `?at=`."""
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(_versions, target, random.Random(number), "at={}")
        await target.over()
        nursery.cancel_scope.cancel()


_EXACTLY = "resourceVersion={}&resourceVersionMatch=Exact"


async def _versions(target: Target, chance: random.Random, query: str = _EXACTLY) -> None:
    while True:
        path = f"{COLLECTION}?{query.format(chance.randrange(OBJECTS // 2, OBJECTS))}"
        async with await target.connect() as stream:
            await stream.send_all(head("GET", path))
            await read_response(stream)


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


_LISTS: dict[str, Run] = {
    "list of 60,000 with a selector of 15 kB": _gets(_selector()),
    "Table of 60,000": _gets(COLLECTION, _table("Table")),
    "PartialObjectMetadataList of 60,000": _gets(COLLECTION, _table("PartialObjectMetadataList")),
    "list of 60,000, pretty": _gets(f"{COLLECTION}?pretty=true"),
    "list of 60,000 in YAML": _gets(COLLECTION, "Accept: application/yaml"),
    "list of 60,000 in protobuf": _gets(COLLECTION, "Accept: application/vnd.cluster.protobuf"),
    "list of 60,000 with 2,600 negations": _gets(_negations(), connections=6),
    "40 lists of 43 MB": _gets(COLLECTION, connections=40),
    "60 lists of 43 MB, unread": partial(unread, path=COLLECTION, count=UNREAD),
    "800 HTTP/2 lists with closed windows": _zero_window,
    "20 watches that begin with 60,000": _gets(f"{COLLECTION}?watch=true&timeoutSeconds=4", connections=20),
    "lists of 60,000 at versions before": _exact,
    "lists of 60,000 with ?at=": _past,
}
READERS = attacks("users who may list", _LISTS, collection=True)

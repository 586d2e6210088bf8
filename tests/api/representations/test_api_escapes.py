"""JSON of every kind has the escapes that Go's encoder writes: some clients treat U+2028 as the end of a line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import orjson
import trio

from rewound.journal import Event, Journal, keys
from tests.cases import checking
from tests.gateway.api import ADMIN, Api, served
from tests.gateway.audit.auditing import audited, rules
from tests.gateway.shared_server import shared
from tests.gateway.watch.watching import connect, request
from tests.gateway.watch.websocket_client import websocket_client
from tests.journal.test_escapes import row_of_an_earlier_release

PATH = "/api/v1/namespaces/default/configmaps"
TEXT = "<a>&\u2028\u2029\b\f\\b é"
WRITTEN = '"\\u003ca\\u003e\\u0026\\u2028\\u2029\\u0008\\u000c\\\\b é"'.encode()
RAW = ("<", ">", "&", "\u2028", "\u2029", "\b", "\f")
OBJECT = {"metadata": {"name": "a", "annotations": {"text": TEXT}}, "data": {"k": TEXT}}
TABLE = "application/json;as=Table;g=meta.cluster.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.cluster.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.cluster.io;v=v1"


def check(body: bytes, occurrences: int) -> None:
    assert not [one for one in RAW if one in body.decode()], body
    assert body.count(WRITTEN) == occurrences, body
    orjson.loads(body)


async def test_every_form_of_an_object() -> None:
    async with shared("configmaps") as api:
        created = await api.ask("POST", PATH, OBJECT)
        check(created.body, 2)
        assert created.expect(201)["data"] == {"k": TEXT}
        with checking() as case:
            for path, accept, occurrences in (
                (f"{PATH}/a", "application/json", 2),
                (f"{PATH}/a?pretty=1", "application/json", 2),
                (f"{PATH}/a", TABLE, 1),
                (f"{PATH}/a", PARTIAL, 1),
                (PATH, "application/json", 2),
                (f"{PATH}?pretty=1", "application/json", 2),
                (f"{PATH}?includeObject=Object", TABLE, 2),
                (PATH, PARTIAL_LIST, 1),
            ):
                with case((path, accept)):
                    response = await api.ask("GET", path, headers={"accept": accept})
                    assert response.status == 200
                    check(response.body, occurrences)
        patch = {"content-type": "application/merge-patch+json"}
        check((await api.ask("PATCH", f"{PATH}/a", {"data": {"l": TEXT}}, headers=patch)).body, 3)
        check((await api.ask("PUT", f"{PATH}/a", OBJECT)).body, 2)


async def test_errors_and_other_documents() -> None:
    async with shared() as api:
        for method, path, body in (
            ("GET", f"{PATH}/%3Ca%3E&%E2%80%A8", None),
            ("POST", PATH, {"metadata": {"name": TEXT}}),
            ("GET", "/apis", None),
            ("GET", "/openapi/v2", None),
            ("GET", "/openapi/v3/api/v1", None),
        ):
            answer = (await api.ask(method, path, body)).body
            check(answer, answer.count(WRITTEN))
        missing = await api.ask("GET", f"{PATH}/%3Ca%3E&%E2%80%A8")
        assert b'"name":"\\u003ca\\u003e\\u0026\\u2028"' in missing.body


async def test_watch_events_have_the_escapes_of_go() -> None:
    url = f"{PATH}?watch=1"
    async with shared("configmaps") as api, opened(api, url) as chunks:
        await api.ask("POST", PATH, OBJECT)
        async with websocket_client(api, url) as frames:
            for kind in (b"ADDED", b"MODIFIED"):
                for event in (await chunks.event(), (await frames.frame()).payload):
                    check(event, 2)
                    assert event.startswith(b'{"type":"%b"' % kind)
                await api.ask("PUT", f"{PATH}/a", {**OBJECT, "data": {"k": TEXT, "l": "2"}})


class Chunks:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.received = b""

    async def event(self) -> bytes:
        """The next event of a watch, which is one line even for a client that ends lines at U+2028."""
        while b"}\n\r\n" not in self.received:
            more = await self.stream.receive_some()
            assert more
            self.received += more
        event, end, self.received = self.received.partition(b"}\n\r\n")
        [line] = (event[event.index(b'{"type"') :] + end[:1]).decode().splitlines()
        return line.encode()


@asynccontextmanager
async def opened(api: Api, path: str) -> AsyncIterator[Chunks]:
    stream = await connect(api)
    await stream.send_all(request(path, ADMIN, {}))
    try:
        yield Chunks(stream)
    finally:
        await trio.aclose_forcefully(stream)


async def test_objects_that_an_earlier_release_stored(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await api.ask("POST", PATH, OBJECT)
        await api.finish()
        store_unescaped(api.settings.data_dir)
        await api.start()
        check((await api.ask("GET", f"{PATH}/a")).body, 2)
        for _ in range(3):  # the third comes from the cache
            check((await api.ask("GET", PATH)).body, 2)
        async with opened(api, f"{PATH}?watch=1") as chunks:
            check(await chunks.event(), 2)
        # Writing the same object again is not a change.
        before = await api.head()
        (await api.ask("PUT", f"{PATH}/a", OBJECT)).expect(200)
        assert await api.head() == before


def store_unescaped(folder: Path) -> None:
    """Append the object once more in the encoding of an earlier release."""
    with closing(Journal.open(folder / "journal")) as journal:
        type_id = journal.type_id("configmaps")
        with journal.read() as view:
            row = view.get(type_id, "default", "a")
        assert row is not None
        offset = journal.head + 1
        document = orjson.loads(row.body)
        document["metadata"]["resourceVersion"] = str(offset)
        body = orjson.dumps(document)
        assert TEXT[:5].encode() in body
        event = Event(
            offset,
            type_id,
            "update",
            "default",
            "a",
            row.offset,
            False,
            journal.time,
            "u",
            "m",
            row.facts,
            body,
        )
        journal.append([event])
        key = keys.of_object(type_id, "default", "a")
        stored = row_of_an_earlier_release(key, offset, row.facts, body)
        state = journal.environment.databases.state
        journal.environment.write(lambda txn: txn.put(key, stored, db=state))


async def test_audit_log_has_the_escapes_of_go() -> None:
    async with audited(rules("level: RequestResponse")) as log:
        await log.api.ask("POST", f"{PATH}?fieldManager=a&pretty=0", OBJECT)
        await log.api.ask("GET", f"{PATH}/a?a=1&b=2")
        await log.api.finish()
        lines = [line.encode() for line in log.lines() if "default/configmaps" in line]
    assert [line.count(WRITTEN) for line in lines] == [0, 4, 0, 2]
    for line in lines:
        check(line, line.count(WRITTEN))


async def test_audit_log_without_objects() -> None:
    async with audited(rules("level: Metadata")) as log:
        await log.api.ask("GET", f"{PATH}?a=1&b=%3C", headers={"user-agent": "<agent>"})
        await log.api.finish()
        lines = [line.encode() for line in log.lines() if "default/configmaps" in line]
    assert len(lines) == 2
    for line in lines:
        check(line, 0)
        assert b"a=1\\u0026b=%3C" in line and b"\\u003cagent\\u003e" in line

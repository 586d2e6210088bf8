"""The audit webhook takes events of its senders only, within bounds, once each; and what it acknowledged is on disk."""

from __future__ import annotations

import gzip
import shutil
import ssl
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from rewound.actors.certificates.issuing_process import make_certificates
from rewound.recording.record import audit_sink
from rewound.recording.record.audit_sink import AuditSink, SinkOptions
from rewound.recording.record.audit_spool import Spool
from rewound.recording.record.requests import Request, requests_in
from tests.recording.record.audit_senders import client_of, event_list, settings_of

TIME = "2026-11-18T10:00:00.000000Z"


def event(number: int, **more: Any) -> dict[str, Any]:
    return {
        "level": "Metadata",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/shop/configmaps/web-{number}",
        "verb": "update",
        "user": {"username": "alice"},
        "userAgent": "kubectl/v1.36.4",
        "sourceIPs": ["10.0.0.7"],
        "objectRef": {
            "resource": "configmaps",
            "namespace": "shop",
            "name": f"web-{number}",
            "apiVersion": "v1",
        },
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": TIME,
        "stageTimestamp": TIME,
        **more,
    }


@asynccontextmanager
async def listening(folder: Path, **options: Any) -> AsyncIterator[tuple[AuditSink, list[Request]]]:
    taken: list[Request] = []
    sink = AuditSink(folder, SinkOptions(port=0, **options), taken.append, lambda: None)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(sink.run)
            yield sink, taken
            nursery.cancel_scope.cancel()
    finally:
        sink.spool.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificates that a sink makes for itself at its first start."""
    folder = tmp_path_factory.mktemp("made")

    async def once() -> None:
        async with listening(folder):
            pass

    trio.run(once)
    return folder / "audit-webhook" / "pki"


@pytest.fixture
def folder(tmp_path: Path, made: Path) -> Path:
    """A recording whose sink was started before, because making certificates takes a second."""
    shutil.copytree(made, tmp_path / "audit-webhook" / "pki")
    return tmp_path


@asynccontextmanager
async def connected(
    sink: AuditSink, pair: tuple[Path, Path] | None = None
) -> AsyncIterator[trio.SSLStream[Any]]:
    """A bare TLS connection."""
    url, _, authority = settings_of(sink.config_file)
    tls = ssl.create_default_context(cadata=authority)
    if pair is not None:
        tls.load_cert_chain(*pair)
    tcp = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
    stream = trio.SSLStream(tcp, tls, server_hostname="127.0.0.1", https_compatible=True)
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


def head(token: str, *fields: str) -> bytes:
    lines = ["POST / HTTP/1.1", "host: x", f"authorization: Bearer {token}", *fields]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


async def status_of_large(sink: AuditSink, token: str, length: int) -> bytes:
    """The status line for a large body, which must not wait for all of it."""
    async with connected(sink) as stream:
        await stream.send_all(head(token, f"content-length: {length}") + b" " * 1000)
        return bytes(await stream.receive_some(1000)).partition(b"\r\n")[0]


@pytest.fixture(scope="module")
def sender_certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA and a client certificate, as an operator makes them."""
    folder = tmp_path_factory.mktemp("senders")
    request = {"pems": {}, "names": ["localhost"], "administrators": "senders"}
    response = make_certificates({**request, "now": time.time(), "renew_before": 0})
    for name in ("ca", "admin"):
        certificate, key = response["pems"][name]
        (folder / f"{name}.crt").write_text(certificate)
        (folder / f"{name}.key").write_text(key)
    return folder


async def test_repeated_events_count_once(folder: Path) -> None:
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        first, second = event_list([event(1), event(2)]), event_list([event(2), event(3), event(3)])
        for body in (first, first, second):
            assert (await client.post("/", content=body)).status_code == 200
        # A client can choose the ID of its request: another request with it counts.
        assert (await client.post("/", content=event_list([event(1, verb="delete")]))).status_code == 200
        assert [(one.audit_id, one.verb) for one in taken] == [
            ("id-1", "update"),
            ("id-2", "update"),
            ("id-3", "update"),
            ("id-1", "delete"),
        ]
        assert (sink.statistics.events, sink.statistics.repeated) == (8, 4)


async def test_other_stages_and_reads_are_no_changes(folder: Path) -> None:
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        events = [event(1, stage="RequestReceived"), event(2, verb="get"), event(3)]
        assert (await client.post("/", content=event_list(events))).status_code == 200
        assert [one.audit_id for one in taken] == ["id-3"]


async def test_unknown_senders_are_refused(folder: Path) -> None:
    async with listening(folder) as (sink, taken):
        for token in ("wrong", ""):
            async with client_of(sink, token=token) as client:
                response = await client.post("/", content=event_list([event(1)]))
                assert response.status_code == 401
            # The body of an unknown sender is not read.
            assert b" 401 " in await status_of_large(sink, token, 20 << 20)
        assert taken == []
        assert sink.statistics.unauthenticated == 4


async def test_plain_http_is_refused(folder: Path) -> None:
    async with listening(folder) as (sink, taken):
        stream = await trio.open_tcp_stream("127.0.0.1", int(sink.url.rpartition(":")[2]))
        async with stream:
            await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
            assert b" 400 " in await stream.receive_some(100)
        assert taken == []


async def test_client_certificates_of_the_given_authority(folder: Path, sender_certificates: Path) -> None:
    pair = sender_certificates / "admin.crt", sender_certificates / "admin.key"
    authority = sender_certificates / "ca.crt"
    async with listening(folder, client_authority=authority) as (sink, taken):
        async with client_of(sink, token="", certificate=pair) as client:
            assert (await client.post("/", content=event_list([event(1)]))).status_code == 200
        async with client_of(sink, token="") as client:
            assert (await client.post("/", content=event_list([event(2)]))).status_code == 401
        # A certificate of another CA, the sink's own, ends the connection.
        own = folder / "audit-webhook" / "pki"
        async with connected(sink, (own / "admin.crt", own / "admin.key")) as stream:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(head(settings_of(sink.config_file)[1], "content-length: 2") + b"{}")
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some(1000)
        assert [one.audit_id for one in taken] == ["id-1"]


async def test_given_certificate_and_tokens(folder: Path, sender_certificates: Path) -> None:
    tokens, pki = folder / "tokens", folder / "audit-webhook" / "pki"
    tokens.write_text("first\nsecond\n")
    given = {"certificate": pki / "server.crt", "key": pki / "server.key", "token_file": tokens}
    async with listening(folder / "out", **given) as (sink, _):
        assert settings_of(sink.config_file)[1] == "first"
        assert not (folder / "out" / "audit-webhook" / "pki").exists()
        async with client_of(sink, token="second") as client:
            assert (await client.post("/", content=event_list([event(1)]))).status_code == 200
            tokens.write_text("third\n")  # replaced while it runs
            assert (await client.post("/", content=event_list([event(2)]))).status_code == 401


async def test_too_large_bodies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_sink, "_LIMITS", replace(audit_sink._LIMITS, body=1 << 20))
    async with listening(folder) as (sink, taken):
        assert b" 413 " in await status_of_large(sink, settings_of(sink.config_file)[1], 100 << 20)

        async with connected(sink) as stream, trio.open_nursery() as nursery:
            await stream.send_all(head(settings_of(sink.config_file)[1], "transfer-encoding: chunked"))

            async def send_without_end() -> None:
                while True:
                    await stream.send_all(b"10000\r\n" + b" " * 0x10000 + b"\r\n")

            nursery.start_soon(send_without_end)
            assert b" 413 " in await stream.receive_some(1000)
            nursery.cancel_scope.cancel()
        assert taken == []
        assert sink.statistics.refused == 2


async def test_gzip(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"content-encoding": "gzip"}
    compressor = zlib.compressobj(1, wbits=31)
    bomb = b"".join(compressor.compress(b" " * (1 << 20)) for _ in range(40)) + compressor.flush()
    assert len(bomb) < 1 << 20
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        body = gzip.compress(event_list([event(1)]))
        assert (await client.post("/", content=body, headers=headers)).status_code == 200
        for wrong, status in ((bomb, 413), (body[:-5], 400), (b"{}", 400)):
            assert (await client.post("/", content=wrong, headers=headers)).status_code == status
        other = await client.post("/", content=body, headers={"content-encoding": "br"})
        assert other.status_code == 415
        assert [one.audit_id for one in taken] == ["id-1"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        b"[]",
        b"null",
        b'{"kind":"EventList","apiVersion":"audit.k8s.io/v2","items":[]}',
        b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":{"a":1}}',
        b'{"a":' * 5000,
    ],
)
async def test_bodies_that_are_no_event_list(folder: Path, body: bytes) -> None:
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        assert (await client.post("/", content=body)).status_code == 400
        assert taken == []
        assert sink.statistics.unreadable == 1


def nested(levels: int, inner: bytes = b"1") -> bytes:
    return b'{"a":' * levels + inner + b"}" * levels


UNREADABLE = [
    nested(650),
    nested(1100),
    nested(9000),
    b"[" * 3000 + b"]" * 3000,
    b"1e999",
    b'"\\ud800"',
    b'"\xff"',
]


@pytest.mark.parametrize("unreadable", UNREADABLE, ids=range(len(UNREADABLE)))
async def test_contents_that_nobody_can_read_hide_no_author(folder: Path, unreadable: bytes) -> None:
    """Neither that of their own request nor those of others in the batch: only the content is left out."""
    body = event_list(
        [event(1), event(2, requestObject="HERE", responseObject={"metadata": "HERE"}), event(3)]
    )
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        response = await client.post("/", content=body.replace(b'"HERE"', unreadable))
        assert response.status_code == 200
        assert [one.audit_id for one in taken] == ["id-1", "id-2", "id-3"]
        assert sink.statistics.unreadable == 0
        # What was acknowledged is on the disk, and can be read again.
        assert [one.audit_id for one, _, _ in sink.spool.load()] == ["id-1", "id-2", "id-3"]


@pytest.mark.parametrize("unreadable", UNREADABLE[1:], ids=range(1, len(UNREADABLE)))
async def test_event_that_nobody_can_read_loses_no_other(folder: Path, unreadable: bytes) -> None:
    body = event_list([event(1), event(2, user={"username": "bob", "extra": "HERE"}), "HERE", event(3)])
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        response = await client.post("/", content=body.replace(b'"HERE"', unreadable))
        assert response.status_code == 200
        assert [one.audit_id for one in taken] == ["id-1", "id-3"]
        assert sink.statistics.unreadable == 2


async def test_malformed_events_are_counted_and_the_others_taken(folder: Path) -> None:
    wrong = [None, 7, {"stage": "ResponseComplete"}, event(2, stageTimestamp="yesterday"), event(3, user=[1])]
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        assert (await client.post("/", content=event_list([event(1), *wrong]))).status_code == 200
        assert [one.audit_id for one in taken] == ["id-1"]
        assert sink.statistics.unreadable >= 4
        assert (await client.get("/")).status_code == 405


async def test_disk_errors_are_reported_to_the_sender(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with listening(folder) as (sink, taken), client_of(sink) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "append", full)
            response = await client.post("/", content=event_list([event(1)]))
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            assert taken == []
        assert (await client.post("/", content=event_list([event(1)]))).status_code == 200
        assert [one.audit_id for one in taken] == ["id-1"]


async def test_batches_without_memory_get_429(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_sink, "MOST_HELD", 1 << 20)
    body = event_list([event(1)]) + b" " * (2 << 20)
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        response = await client.post("/", content=body)
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
        assert sink.statistics.busy == 1
        assert (await client.post("/", content=event_list([event(1)]))).status_code == 200
        assert len(taken) == 1


async def test_a_sender_that_stops_in_the_middle_holds_up_nobody(folder: Path) -> None:
    async with listening(folder) as (sink, taken), client_of(sink) as client, connected(sink) as slow:
        await slow.send_all(head(settings_of(sink.config_file)[1], "content-length: 100000") + b"{")
        assert (await client.post("/", content=event_list([event(1)]))).status_code == 200
        assert len(taken) == 1


async def test_acknowledged_events_survive_a_kill(folder: Path) -> None:
    async with listening(folder) as (sink, taken), client_of(sink) as client:
        body = event_list([event(1), event(2, requestObject={"data": {"password": "secret"}}), event(3)])
        assert (await client.post("/", content=body)).status_code == 200
        sink.spool.note_use(taken[0], False)
        assert (await client.post("/", content=event_list([event(4, verb="delete")]))).status_code == 200
    # Nothing is closed: this is what a kill leaves, and the start of a line that it cut off.
    [file] = (folder / "audit-webhook" / "spool").iterdir()
    assert b"secret" not in file.read_bytes()
    with file.open("ab") as stream:
        stream.write(b'{"request": {"audit_id"')
    loaded: list[tuple[str, int, bool]] = []
    again = AuditSink(folder, SinkOptions(port=0), taken.append, lambda: None)
    again.load(lambda one, uses, marked: loaded.append((one.audit_id, uses, marked)))
    assert loaded == [("id-1", 1, False), ("id-2", 0, False), ("id-3", 0, False), ("id-4", 0, False)]
    taken.clear()
    async with trio.open_nursery() as nursery:
        await nursery.start(again.run)
        async with client_of(again) as client:  # the sender repeats the batch whose response it did not get
            assert (await client.post("/", content=body)).status_code == 200
        nursery.cancel_scope.cancel()
    assert taken == []
    assert again.statistics.repeated == 3


def test_spool_forgets_old_files(tmp_path: Path) -> None:
    now = [1_000_000.0]
    spool = Spool(tmp_path, lambda: now[0])
    [request] = requests_in(event_list([event(1)]))
    for _ in range(10):
        spool.append([request])
        now[0] += 301
    assert len(list(tmp_path.iterdir())) <= 4
    assert len(list(Spool(tmp_path, lambda: now[0]).load())) == 1
    spool.close()

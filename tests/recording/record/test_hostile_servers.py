"""Broken or hostile servers: the recorder reports what is wrong, and uses bounded memory and time."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import orjson
import pytest
import trio

from rewound.actors.selectors.facts import unpack_selectable
from rewound.cli.record import EscapingFormatter
from rewound.client.credentials import Credential, FixedCredential
from rewound.client.errors import ClientError
from rewound.client.streaming import StreamingSession
from rewound.client.target import Target
from rewound.journal.log import Journal
from rewound.recording.record.gaps import LEFT_OUT, UNREACHABLE
from rewound.recording.record.recorder import Recorder, RecordOptions, TooLarge
from tests.recording.record.recording import events_of, opened

MAPS = {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list", "watch"]}
DOCUMENTS: dict[str, Any] = {
    "/api": {"versions": ["v1"]},
    "/apis": {"groups": [{"name": "authentication.k8s.io", "versions": [{"version": "v1"}]}]},
    "/api/v1": {"resources": [MAPS]},
    "/apis/authentication.k8s.io/v1": {"resources": []},
    "/api/v1/configmaps": {"metadata": {"resourceVersion": "7"}, "items": []},
    "watch": [],
}


def config_map(**metadata: Any) -> dict[str, Any]:
    given = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "5"}
    return {"metadata": {**given, **metadata}}


def listed(*items: Any, **metadata: Any) -> dict[str, Any]:
    return {"/api/v1/configmaps": {"metadata": {"resourceVersion": "7", **metadata}, "items": list(items)}}


@asynccontextmanager
async def server_of(documents: dict[str, Any]) -> AsyncIterator[StreamingSession]:
    """A session to a server that has these documents; watches get the lines of the path `watch`.

    A document may be a function of the query.
    """

    async def serve(stream: trio.SocketStream) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            if not (data := await stream.receive_some()):
                return
            received += data
        path, _, query = received.split()[1].decode().partition("?")
        found = documents.get("watch" if "watch=1" in query else path)
        if callable(found):
            found = await found(dict(parse_qsl(query)))
        body = b"".join(found) if isinstance(found, list) else orjson.dumps(found)
        status = "404 Not Found" if found is None else "200 OK"
        if isinstance(found, dict) and found.get("kind") == "Status":
            status = f"{found['code']} Refused"
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        await stream.send_all(head.encode() + body)

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        target = Target(f"http://127.0.0.1:{port}", FixedCredential(Credential()), "a test")
        session = StreamingSession(target)
        try:
            yield session
        finally:
            with trio.CancelScope(shield=True):
                await session.aclose()
            nursery.cancel_scope.cancel()


async def run_recorder(documents: dict[str, Any], folder: Path, seconds: float = 3) -> Recorder:
    """Record for a while; raise what ends the recording."""
    ended: BaseException | None = None
    async with server_of({**DOCUMENTS, **documents}) as session:
        recorder = Recorder(session, folder, RecordOptions(), lambda: 1_000_000)
        try:
            with trio.move_on_after(seconds):
                await recorder.run()
        except Exception as error:
            ended = error
    while isinstance(ended, BaseExceptionGroup):
        ended = ended.exceptions[0]
    if ended is not None:
        raise ended
    return recorder


@pytest.mark.parametrize(
    "documents",
    [
        {"/apis": {"groups": [5]}},
        {"/apis": {"groups": [{"name": "authentication.k8s.io", "versions": 5}]}},
        {"/api": {"versions": [5]}},
        {"/api": [b"[]"]},
        {"/api": [b"[" * 100_000]},
    ],
)
async def test_wrong_discovery_is_an_error(
    documents: dict[str, Any], tmp_path: Path, autojump_clock: object
) -> None:
    with pytest.raises(ClientError):
        await run_recorder(documents, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resources", [5, [5], [{"name": 5}], [{**MAPS, "verbs": 5}]])
async def test_wrong_group_versions_are_left_out(
    resources: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    await run_recorder({"/apis/authentication.k8s.io/v1": {"resources": resources}}, tmp_path / "out")
    assert "authentication.k8s.io/v1 cannot be read and is left out" in caplog.text


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ({"gitVersion": "v1.33.4-eks-1"}, "1.33"),
        ({"gitVersion": "v1.24.17"}, ""),
        ({"gitVersion": "v1.99.0"}, "1.36"),
        ({"gitVersion": 5}, "1.36"),
        ([b"[]"], "1.36"),
    ],
)
async def test_recording_has_the_version_nearest_to_that_of_the_server(
    said: Any, version: str, tmp_path: Path, autojump_clock: object
) -> None:
    await run_recorder({"/version": said}, tmp_path / "out")
    journal = Journal.open(tmp_path / "out" / "journal", readonly=True)
    assert journal.kubernetes == version
    journal.close()


async def test_names_that_are_paths_are_no_kinds(tmp_path: Path, autojump_clock: object) -> None:
    names = ("../../etc", "a/b", "a" * 64, "a b", "")
    resources = [MAPS, *({**MAPS, "name": name} for name in names), {**MAPS, "name": "b", "kind": "../B"}]
    recorder = await run_recorder({"/api/v1": {"resources": resources}}, tmp_path / "out")
    assert recorder.progress().kinds == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (5, "it is no object"),
        ({"metadata": 5}, "a field has a type that its kind does not have"),
        (config_map(name="a\0b"), "cannot be stored"),
        (config_map(name="a" * 600), "cannot be stored"),
        (config_map(name=5), "must be strings"),
        (config_map(labels={"a": 5}), "must be strings"),
        (config_map(labels=5), "must be strings"),
        (config_map(ownerReferences=[{"uid": {}}]), "must be strings"),
        (config_map(ownerReferences=[{}]), "it lacks 'uid'"),
        (config_map(resourceVersion="9" * 5000), "cannot be stored"),
        ({**config_map(), "kind": "Secret"}, "another kind than ConfigMap"),
    ],
)
async def test_wrong_objects_are_left_out(
    wrong: Any, message: str, tmp_path: Path, autojump_clock: object
) -> None:
    """Nothing else is: neither before nor after them."""
    around = [config_map(name=name, uid=name) for name in ("before", "wrong", "after")]
    recorder = await run_recorder(listed(around[0], wrong, around[2]), tmp_path / "out")
    async with opened(tmp_path / "out") as journal:
        assert {one.name for one in events_of(journal, "configmaps")} == {"before", "after"}
    (mark,) = recorder.left_out_objects.documents()
    assert (mark["kind"], mark["count"]) == ("configmaps", 1) and message in mark["why"]
    (gap,) = recorder.gaps.lasting()
    assert (gap.why, gap.kinds, gap.missing) == (LEFT_OUT, {"configmaps"}, True)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (listed(config_map(), **{"continue": "again"}), "the list does not end"),
        ({"/api/v1/configmaps": {"metadata": {"resourceVersion": "7"}, "items": 5}}, "items are none"),
        ({"/api/v1/configmaps": [b"no JSON"]}, "a list that cannot be read"),
        ({"/api/v1/configmaps": [b"[]"]}, "did not respond with a list"),
        ({"/api/v1/configmaps": {"items": []}}, "without metadata.resourceVersion"),
        ({"watch": [b'{"type": "ERROR", "object": 5}\n']}, "the watch ended with an error"),
    ],
)
async def test_wrong_responses_are_tried_again(
    documents: dict[str, Any],
    message: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: object,
) -> None:
    caplog.set_level(logging.INFO, "rewound.recording.record")
    recorder = await run_recorder(documents, tmp_path / "out")
    assert message in caplog.text
    # The server has responded: it is never reported as unreachable.
    assert UNREACHABLE not in [one.why for one in recorder.gaps.lasting()]


async def test_objects_may_lack_what_this_release_selects_by(tmp_path: Path, autojump_clock: object) -> None:
    """Then they have no value there, and are selected by all others."""
    pod = {**config_map(labels={"app": "web"}), "spec": {"nodeName": "n1", "schedulerName": 5}, "status": 5}
    documents = {
        "/api/v1": {"resources": [{**MAPS, "name": "pods", "kind": "Pod"}]},
        "/api/v1/pods": {"metadata": {"resourceVersion": "7"}, "items": [pod]},
    }
    await run_recorder(documents, tmp_path / "out")
    async with opened(tmp_path / "out") as journal:
        (event,) = events_of(journal, "pods")
    labels, fields = unpack_selectable(event.facts)
    assert labels == ["app", -1, "web"]
    assert fields == [
        *("spec.nodeName", -2, "n1"),
        *("spec.schedulerName", -2, "5"),
        *("spec.hostNetwork", -2, "false"),
        *("metadata.name", -2, "a"),
        *("metadata.namespace", -2, "default"),
    ]


async def test_lists_are_not_larger_than_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    monkeypatch.setattr("rewound.recording.record.recorder.MOST_LISTED_BYTES", 1000)
    items = [config_map(name=str(number)) for number in range(20)]
    with pytest.raises(TooLarge, match="record a part of them with --kinds or --namespace"):
        await run_recorder(listed(*items), tmp_path / "out")


async def test_responses_are_bounded(monkeypatch: pytest.MonkeyPatch, autojump_clock: object) -> None:
    monkeypatch.setattr("rewound.client.streaming.MAX_DOCUMENT", 1000)
    async with server_of({"/large": {"text": "x" * 2000}, "/small": {}}) as session:
        with pytest.raises(ClientError, match="sent a response of more than"):
            await session.get_document("/large")
        assert await session.get_document("/small") == {}


async def test_version_of_a_list_may_be_too_large(tmp_path: Path, autojump_clock: object) -> None:
    version = "9" * 5000
    recorder = await run_recorder(listed(config_map(), resourceVersion=version), tmp_path / "out")
    assert recorder.started.is_set()


def test_messages_of_servers_cannot_change_the_terminal() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "it says %s", ("\x1b[2J",), None)
    assert EscapingFormatter("rewound: %(message)s").format(record) == "rewound: it says \\x1b[2J"

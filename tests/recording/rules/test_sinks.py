"""What sinks send: to a webhook and an Alertmanager over sockets, as Events of Kubernetes, to stdout."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio.testing

from rewound.client.errors import StatusError
from rewound.recording.rules.delivery import BadSink, Events, NotSent, Sink, make_sinks
from rewound.recording.rules.engine import Alert
from rewound.recording.rules.file import BadRules, SinkOptions, parse_rules
from tests.cases import cases
from tests.recording.rules.story import DEPLOYMENT, HEADER, Story, only

Requests = list[tuple[str, dict[str, str], Any]]
PAGE = "https://rewound.example"


def fight() -> list[Alert]:
    """An alert that fires and is resolved."""
    story = Story(only("fights"))
    for at in range(6):
        story.write(DEPLOYMENT, "web", {"spec": {"replicas": at}}, by=f"controller-{at % 2}")
    story.wait(600)
    return story.alerts


@asynccontextmanager
async def peer(status: str) -> AsyncIterator[tuple[str, Requests]]:
    """An HTTP server that responds with one status."""
    got: Requests = []

    async def serve(stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        while len(body) < int(headers["content-length"]):
            body += await stream.receive_some()
        got.append((lines[0], headers, orjson.loads(body)))
        await stream.send_all(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}", got
        nursery.cancel_scope.cancel()


async def test_webhook(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with peer("204 No Content") as (url, got):
        (sink,) = make_sinks([SinkOptions("webhook", f"{url}/hook", token)], PAGE, None)
        await sink.send(fight())
        await sink.aclose()
    ((line, headers, body),) = got
    assert (line, headers["authorization"]) == ("POST /hook HTTP/1.1", "Bearer secret")
    firing, resolved = body["items"]
    assert (firing["state"], resolved["state"], firing["id"]) == ("firing", "resolved", resolved["id"])
    assert firing["url"].startswith(f"{PAGE}/debug/journal/#object=deployments.apps%2Fshop%2Fweb&at=")
    assert headers["idempotency-key"] == f"{firing['id']}-firing.{firing['id']}-resolved"


async def test_alertmanager() -> None:
    async with peer("200 OK") as (url, got):
        (sink,) = make_sinks([SinkOptions("alertmanager", f"{url}/")], PAGE, None)
        await sink.send(fight())
        await sink.aclose()
    ((line, _, (firing, resolved)),) = got
    assert line == "POST /api/v2/alerts HTTP/1.1"
    assert firing["labels"] == resolved["labels"]
    assert firing["labels"]["alertname"] == "fights"
    assert firing["startsAt"] == resolved["startsAt"] < resolved["endsAt"]
    assert "endsAt" not in firing
    assert firing["generatorURL"].startswith(f"{PAGE}/debug/journal/#")


async def test_peers_that_refuse() -> None:
    for status, again in (("500 No", True), ("429 Later", True), ("400 No", False), ("302 Elsewhere", False)):
        async with peer(status) as (url, _):
            (sink,) = make_sinks([SinkOptions("webhook", url)], PAGE, None)
            with pytest.raises(NotSent, match=f"responded with {status[:3]}") as raised:
                await sink.send(fight())
            assert raised.value.again is again
            await sink.aclose()
    (sink,) = make_sinks([SinkOptions("webhook", url)], PAGE, None)
    with pytest.raises(NotSent) as raised:  # nobody listens there any more
        await sink.send(fight())
    assert raised.value.again
    await sink.aclose()


async def test_what_cannot_be_sent_waits(tmp_path: Path) -> None:
    """Whoever edits rules or a token may not end a recorder."""
    token = tmp_path / "token"
    for content in (b"\xff\xfe", "tökén".encode(), b"a\nb"):
        token.write_bytes(content)
        (sink,) = make_sinks([SinkOptions("webhook", "http://127.0.0.1:1", token)], PAGE, None)
        assert f"tokenFile {token}: is no token in one line" in await refuses_for_now(sink)
    for url in ("http://xn--", "http://x:99999", "http://x/\r\n"):
        (sink,) = make_sinks([SinkOptions("webhook", url)], PAGE, None)
        await refuses_for_now(sink)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as broken:
        (sink,) = make_sinks([SinkOptions("stdout")], PAGE, None, broken)
        await refuses_for_now(sink)
        with suppress(BrokenPipeError):
            broken.close()


async def refuses_for_now(sink: Sink) -> str:
    with pytest.raises(NotSent) as raised:
        await sink.send(fight())
    assert raised.value.again
    await sink.aclose()
    return str(raised.value)


async def test_pipe_that_nobody_reads_holds_up_nothing() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as left, open(writer, "w") as full:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while os.write(writer, b"x" * 65536):
                pass
        os.set_blocking(writer, True)
        (sink,) = make_sinks([SinkOptions("stdout")], PAGE, None, full)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.send, fight())
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        os.set_blocking(reader, False)
        with trio.fail_after(60):
            while b"fights" not in (left.read() or b""):  # the thread goes on
                await trio.sleep(0.01)


def test_ca_file_that_is_missing_or_no_certificate(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.crt"
    for content, why in ((None, "No such file"), ("x", "name a file of certificates in PEM form")):
        if content is not None:
            wrong.write_text(content)
        with pytest.raises(BadSink, match=f"webhook.caFile: {wrong}: .*{why}"):
            make_sinks([SinkOptions("webhook", "https://x", ca_file=wrong)], PAGE, None)


class Cluster:
    """Takes Events; one with a name that it has is refused."""

    def __init__(self) -> None:
        self.posted: dict[str, dict[str, Any]] = {}

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/shop/events"
        if body["metadata"]["name"] in self.posted:
            raise StatusError(409, "AlreadyExists", "it exists")
        self.posted[body["metadata"]["name"]] = body
        return body


async def test_events() -> None:
    cluster: Any = Cluster()
    sink = Events(cluster, SinkOptions("events"))
    for _ in range(2):  # also after a restart
        await sink.send(fight())
    firing, resolved = cluster.posted.values()
    assert (firing["type"], firing["reason"]) == ("Warning", "Fights")
    assert (resolved["type"], resolved["reason"]) == ("Normal", "FightsResolved")
    assert firing["involvedObject"]["name"] == "web"
    assert "set spec.replicas of Deployment shop/web in turn" in firing["message"]


async def test_stdout() -> None:
    printed = io.StringIO()
    for form in ("json", "text"):
        (sink,) = make_sinks([SinkOptions("stdout", form=form)], PAGE, None, printed)
        await sink.send(fight())
    lines = printed.getvalue().splitlines()
    assert [orjson.loads(line)["state"] for line in lines[:2]] == ["firing", "resolved"]
    assert " firing warning fights: controller-" in lines[2]


@cases(
    "text, error",
    [
        ("sinks: [{}]", "sinks[0]: must have one key, its kind: stdout, webhook, alertmanager, events"),
        ("sinks: [{webhok: {}}]", "sinks[0].webhok: is not known; did you mean webhook?"),
        ("sinks: [{webhook: {}}]", "sinks[0].webhook.url: '' is no URL; write one like https://"),
        ("sinks: [{webhook: {url: 'ftp://x'}}]", "sinks[0].webhook.url: 'ftp://x' is no URL"),
        ("sinks: [{webhook: {url: 'http://[::1'}}]", "sinks[0].webhook.url: 'http://[::1' is no URL"),
        ("sinks: [{webhook: {url: 'http://x:99999'}}]", "sinks[0].webhook.url: 'http://x:99999' is no URL"),
        ("sinks: [{webhook: {url: 'http://a b'}}]", "sinks[0].webhook.url: 'http://a b' is no URL"),
        (
            "sinks: [{alertmanager: {url: 'http://a..b'}}]",
            "sinks[0].alertmanager.url: 'http://a..b' is no URL",
        ),
        ('sinks: [{webhook: {url: "http://x/\\r\\n"}}]', "sinks[0].webhook.url: 'http://x/\\r\\n' is no URL"),
        ("sinks: [{webhook: {url: 'http://x', ca: x}}]", "sinks[0].webhook.ca: is not known"),
        ("sinks: [{stdout: {format: xml}}]", "sinks[0].stdout.format: must be json or text, not 'xml'"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(BadRules) as raised:
        parse_rules(HEADER + text.encode(), "rules.yaml")
    assert error in str(raised.value)


async def test_two_sinks_of_one_kind_have_names_of_their_own() -> None:
    """The state in the folder has what waits by these names."""
    hooks = [SinkOptions("webhook", f"http://127.0.0.1:{port}") for port in (1, 2)]
    made = make_sinks([hooks[0], SinkOptions("stdout"), hooks[1]], "", None)
    assert [one.name for one in made] == ["webhook", "stdout", "webhook-2"]
    for one in made:
        await one.aclose()

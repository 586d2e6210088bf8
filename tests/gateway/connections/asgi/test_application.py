"""The ASGI application: its lifespan, its configuration by environment variables, and requests from an ASGI server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio.testing

from rewound.actors.profile import Rules
from rewound.asgi import create_application, settings_of
from rewound.gateway.settings.checks import SettingsError
from rewound.server.application import Application
from tests.actors.certificates.shared_folder import own_certificates
from tests.gateway.api import ADMIN, settings

MAPS = "/api/v1/namespaces/default/configmaps"
SIGNED_IN = (b"authorization", f"Bearer {ADMIN}".encode())


def scope_of(path: str, *fields: tuple[bytes, bytes], method: str = "GET", **more: Any) -> dict[str, Any]:
    target, _, query = path.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"rewound"), *fields],
        "client": ("192.0.2.7", 1),
        **more,
    }


class Server:
    """Acts as an ASGI server for one request; the test takes the messages."""

    def __init__(self, *bodies: bytes, kind: str = "http") -> None:
        self._kind = kind
        self._arriving: list[dict[str, Any]] = [{"type": "websocket.connect"}]
        if kind == "http":
            parts = bodies or (b"",)
            self._arriving = [{"type": "http.request", "body": one, "more_body": True} for one in parts]
            self._arriving[-1]["more_body"] = False
        self.disconnected = trio.Event()
        self.sent: list[Any] = []
        self.put, self.take = trio.open_memory_channel[Any](0)

    async def receive(self) -> dict[str, Any]:
        if self._arriving:
            return self._arriving.pop(0)
        await self.disconnected.wait()
        return {"type": f"{self._kind}.disconnect"}

    async def keep(self, message: Any) -> None:
        self.sent.append(message)

    async def hand_over(self, message: Any) -> None:
        """Wait until the test takes the message, as a server waits for its client."""
        await self.put.send(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def body(self) -> bytes:
        return b"".join(one["body"] for one in self.sent[1:])


async def ask(application: Application, scope: dict[str, Any], *bodies: bytes) -> Server:
    server = Server(*bodies)
    await application(scope, server.receive, server.keep)
    return server


@asynccontextmanager
async def running(folder: Path, **changed: Any) -> AsyncIterator[Application]:
    application = create_application(settings(folder, **changed))
    async with application.running():
        yield application


async def test_lifespan_opens_and_closes_the_store(tmp_path: Path) -> None:
    application = create_application(settings(tmp_path))
    put, take = trio.open_memory_channel[Any](1)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if message["type"] == "lifespan.startup.complete":
            assert (await ask(application, scope_of("/version"))).status == 200
            await put.send({"type": "lifespan.shutdown"})

    await put.send({"type": "lifespan.startup"})
    await application({"type": "lifespan"}, take.receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    refused = await ask(application, scope_of("/version"))
    assert refused.status == 503 and b"lifespan" in refused.body
    async with application.running():  # the journal is closed: it can be opened again
        assert (await ask(application, scope_of("/version"))).status == 200


async def test_start_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for environment, wanted in (
        ({"REWOUND_DATA_DIR": str(tmp_path / "file")}, "REWOUND_DATA_DIR: "),
        ({"REWOUND_SECURE_PORT": "http"}, "REWOUND_SECURE_PORT: 'http' is not a port"),
        ({"REWOUND_SECURE_PROT": "1"}, "did you mean --secure-port?"),
        ({"REWOUND_PROFILE": "v1.26"}, "REWOUND_PROFILE: 'v1.26' is not known"),
        (
            {"REWOUND_RULE": "health=rewound\nhealth=etcd"},
            "REWOUND_RULE: the rule health has no value 'etcd'",
        ),
        ({"REWOUND_ANONYMOUS_AUTH": "perhaps"}, "REWOUND_ANONYMOUS_AUTH: 'perhaps' is neither"),
    ):
        with pytest.raises(SettingsError) as error:
            settings_of(environment)
        assert wanted in str(error.value)
        failed: list[Any] = []

        async def send(message: Any, failed: list[Any] = failed) -> None:
            failed.append(message)

        async def receive() -> Any:
            return {"type": "lifespan.startup"}

        application = Application(lambda environment=environment: settings_of(environment))
        await application({"type": "lifespan"}, receive, send)
        assert failed[0]["type"] == "lifespan.startup.failed"
        assert str(error.value) in failed[0]["message"]


def test_warnings_about_variables_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings_of({"REWOUND_DATA_DIR": str(tmp_path), "REWOUND_RUNTIME_CONFIG": "api/legacy=true"})
    assert "api/legacy has no effect" in caplog.text


def test_every_flag_is_a_variable(tmp_path: Path) -> None:
    found = settings_of(
        {
            "REWOUND_DATA_DIR": str(tmp_path),
            "REWOUND_DIALECT": "kubernetes",
            "REWOUND_PROFILE": "documents",
            "REWOUND_RULE": "service-name=optional\nhealth=kubernetes,bookmark=zero-values",
            "REWOUND_SECURE_PORT": "0",
            "REWOUND_INSECURE_PORT": "8080",
            "REWOUND_EVENT_TTL": "5m",
            "REWOUND_FEATURE_GATES": "",
            "REWOUND_URL": "https://for.a.client",
            "PATH": "/bin",
        }
    )
    assert (found.data_dir, found.dialect) == (tmp_path, "kubernetes")
    assert found.controllers.event_ttl == 300
    assert found.rules == Rules(service_name="optional", health="kubernetes", bookmark="zero-values")


async def test_requests_are_checked_as_on_every_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as application:
        long = (b"x", b"y" * (1 << 20))
        both = (b"content-length", b"4"), (b"transfer-encoding", b"chunked")
        many = [(b"x-%d" % number, b"") for number in range(1001)]
        for scope, bodies, status in (
            (scope_of("/version", method="BREW"), (), 405),
            (scope_of("/version#part"), (), 400),
            (scope_of("/api/%zz"), (), 400),
            (scope_of("/version", long), (), 431),
            (scope_of("/version", *many), (), 431),
            (scope_of("/version", (b"host", b"other")), (), 400),
            (scope_of("/version", (b"expect", b"more")), (), 417),
            (scope_of("/version", http_version="0.9"), (), 505),
            (scope_of("/version", http_version="9.9"), (), 505),
            (scope_of("/version", *both), (), 400),
            (scope_of("/version", both[1], http_version="2"), (), 400),
            (scope_of("/version", both[1], http_version="3"), (), 400),
            (scope_of(MAPS, SIGNED_IN, (b"content-length", b"9999999"), method="POST"), (), 413),
            (
                scope_of(MAPS, SIGNED_IN, (b"transfer-encoding", b"chunked"), method="POST"),
                tuple([b" " * 65536] * 49),
                413,
            ),
            (scope_of(MAPS), (), 403),
            (scope_of(MAPS, (b"authorization", b"Bearer no")), (), 401),
        ):
            found = await ask(application, scope, *bodies)
            assert found.status == status, found.body
            assert orjson.loads(found.body)["code"] == status
            names = [name for name, _ in found.sent[0]["headers"]]
            assert {b"audit-id", b"cache-control", b"content-type", b"content-length"} <= set(names)


async def test_connection_ends_after_a_refused_head_of_http_1(tmp_path: Path) -> None:
    async with running(tmp_path) as application:
        both = (b"content-length", b"4"), (b"transfer-encoding", b"chunked")
        for scope, ends in (
            (scope_of("/version", *both), True),
            (scope_of("/version", both[1], http_version="3"), False),
            (scope_of("/version", SIGNED_IN), False),
        ):
            found = await ask(application, scope)
            assert ((b"connection", b"close") in found.sent[0]["headers"]) is ends


async def test_body_arrives_in_parts(tmp_path: Path) -> None:
    async with running(tmp_path) as application:
        body = orjson.dumps({"metadata": {"name": "a"}, "data": {"k": "v" * 200_000}})
        parts = [body[at : at + 1000] for at in range(0, len(body), 1000)]
        scope = scope_of(MAPS, SIGNED_IN, (b"transfer-encoding", b"chunked"), method="POST")
        assert (await ask(application, scope, *parts)).status == 201
        listed = await ask(application, scope_of(MAPS, SIGNED_IN))
        assert len(orjson.loads(listed.body)["items"][0]["data"]["k"]) == 200_000
        head = await ask(application, scope_of("/version", SIGNED_IN, method="HEAD"))
        assert head.sent[0]["type"] == "http.response.start" and head.body == b""


async def test_slow_watcher_holds_a_bounded_part_of_its_events(tmp_path: Path) -> None:
    async with running(tmp_path) as application, trio.open_nursery() as nursery:
        server = Server()
        scope = scope_of(f"{MAPS}?watch=1", SIGNED_IN)
        nursery.start_soon(application, scope, server.receive, server.hand_over)
        assert (await server.take.receive())["status"] == 200
        for number in range(40):
            body = orjson.dumps({"metadata": {"name": f"a{number:02}"}, "data": {"k": "v" * 20_000}})
            made = await ask(application, scope_of(MAPS, SIGNED_IN, _length(body), method="POST"), body)
            assert made.status == 201
        first = await server.take.receive()
        await trio.testing.wait_all_tasks_blocked()
        second = await server.take.receive()
        assert len(first["body"]) + len(second["body"]) < 8 * 20_000  # not all of it is in memory
        lines = first["body"] + second["body"]
        while lines.count(b"\n") < 40:
            lines += (await server.take.receive())["body"]
        names = [orjson.loads(line)["object"]["metadata"]["name"] for line in lines.splitlines()]
        assert names == [f"a{number:02}" for number in range(40)]
        server.disconnected.set()  # ends it


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(body)


async def test_watch_ends_when_the_application_stops(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        server = Server()
        async with running(tmp_path) as application:
            scope = scope_of(f"{MAPS}?watch=1", SIGNED_IN)
            nursery.start_soon(application, scope, server.receive, server.hand_over)
            await server.take.receive()
            nursery.start_soon(_take_all, server)
        assert server.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        nursery.cancel_scope.cancel()


async def _take_all(server: Server) -> None:
    async for message in server.take:
        server.sent.append(message)


async def test_upgrades_are_refused_with_a_reason(tmp_path: Path) -> None:
    async with running(tmp_path) as application:
        node = orjson.dumps({"metadata": {"name": "n"}, "status": {}})
        await ask(application, scope_of("/api/v1/nodes", SIGNED_IN, _length(node), method="POST"), node)
        address = orjson.dumps({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}})
        fields = (SIGNED_IN, _length(address), (b"content-type", b"application/merge-patch+json"))
        patched = await ask(application, scope_of("/api/v1/nodes/n/status", *fields, method="PATCH"), address)
        assert patched.status == 200
        upgrade = ((b"connection", b"Upgrade"), (b"upgrade", b"SPDY/3.1"))
        found = await ask(application, scope_of("/api/v1/nodes/n/proxy/", SIGNED_IN, *upgrade))
        assert found.status == 501 and b"ASGI cannot carry" in found.body
        server = Server(kind="websocket")
        scope = scope_of("/api/v1/nodes/n/proxy/", SIGNED_IN, type="websocket", subprotocols=[])
        scope["extensions"] = {"websocket.http.response": {}}
        await application(scope, server.receive, server.keep)
        assert server.sent[0]["type"] == "websocket.http.response.start" and server.status == 501


async def test_certificate_of_the_tls_extension_signs_in(tmp_path: Path) -> None:
    pem = own_certificates("cluster").certificate("admin").read_text()
    async with running(tmp_path) as application:
        for tls, status in (
            ({"client_cert_chain": [pem], "client_cert_error": None}, 200),
            ({"client_cert_chain": [pem], "client_cert_error": "self-signed"}, 403),
            ({"client_cert_chain": []}, 403),
        ):
            found = await ask(application, scope_of(MAPS, scheme="https", extensions={"tls": tls}))
            assert found.status == status


async def test_websocket_watch_selects_a_subprotocol_and_hides_the_token(tmp_path: Path) -> None:
    import base64

    token = base64.urlsafe_b64encode(ADMIN.encode()).rstrip(b"=")
    offered = b"base64url.bearer.authorization.cluster.io." + token + b", v1.example"
    async with running(tmp_path) as application:
        body = orjson.dumps({"metadata": {"name": "a"}})
        await ask(application, scope_of(MAPS, SIGNED_IN, _length(body), method="POST"), body)
        server = Server(kind="websocket")
        fields = ((b"sec-websocket-protocol", offered), (b"sec-websocket-version", b"13"))
        scope = scope_of(f"{MAPS}?watch=1&timeoutSeconds=1", *fields, type="websocket")
        await application(scope, server.receive, server.keep)
        accepted, event, closed = server.sent
        assert (accepted["type"], accepted["subprotocol"]) == ("websocket.accept", "v1.example")
        assert orjson.loads(event["text"])["object"]["metadata"]["name"] == "a"
        assert closed == {"type": "websocket.close", "code": 1000}
        refused = Server(kind="websocket")
        await application(scope_of(f"{MAPS}?watch=1", type="websocket"), refused.receive, refused.keep)
        assert refused.sent == [{"type": "websocket.close", "code": 1008}]

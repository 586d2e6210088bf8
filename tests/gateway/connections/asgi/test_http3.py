"""HTTP/3: requests, large bodies in both directions, and clients that disconnect."""

from __future__ import annotations

import gc
import shutil
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import orjson
import pytest
import trio
from aioquic.h3.connection import ErrorCode

from rewound.gateway.settings import settings as settings_module
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.server_config import Address
from rewound.gateway.settings.settings import Settings
from rewound.server.extensions import Extensions
from tests.actors.certificates.shared_folder import own_certificates
from tests.cases import cases
from tests.conformance.http3_client import Http3Client, connected
from tests.conformance.through import Answer
from tests.gateway.api import ADMIN, Api, config_map, served
from tests.gateway.connections.http_server import authority
from tests.gateway.initial_data import SECURE_PORT
from tests.gateway.observing import Observer

MAPS = b"/api/v1/namespaces/default/configmaps"
SIGNED_IN = [(b"authorization", f"Bearer {ADMIN}".encode())]


@asynccontextmanager
async def opened(extensions: Extensions | None = None) -> AsyncIterator[tuple[Api, Http3Client]]:
    async with served(
        extensions=extensions or Extensions(),
        transport="asgi",
        secure_port=SECURE_PORT,
        quic_bind="127.0.0.1:0",
    ) as api:
        assert api.addresses.quic is not None
        async with connected(*api.addresses.quic) as client:
            yield api, client


async def body_of(answer: Answer) -> bytes:
    return b"".join([part async for part in answer.parts])


async def test_requests_share_a_connection() -> None:
    async with opened() as (api, client):
        body = orjson.dumps(config_map("a", k="v" * 150_000))
        async with client.request(b"POST", MAPS, SIGNED_IN, body) as answer:
            assert answer.status == 201
            assert len(await body_of(answer)) > 150_000
        async with client.request(b"GET", MAPS, SIGNED_IN, b"") as answer:
            assert len(orjson.loads(await body_of(answer))["items"][0]["data"]["k"]) == 150_000
        async with client.request(b"GET", MAPS, [], b"") as answer:
            assert answer.status == 403  # client certificates do not authenticate over HTTP/3
        assert "h3=" in (await api.ask("GET", "/version")).headers["alt-svc"]


async def test_a_changed_certificate_is_that_of_new_connections(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    own = own_certificates("cluster")
    shutil.copy(own.certificate("server"), certificate)
    shutil.copy(own.key("server"), key)
    async with served(
        transport="asgi",
        secure_port=SECURE_PORT,
        quic_bind="127.0.0.1:0",
        tls_cert_file=certificate,
        tls_private_key_file=key,
    ) as api:
        assert api.addresses.quic is not None
        before = await serial_number(api.addresses.quic)
        shutil.copy(authority().certificate, certificate)
        shutil.copy(authority().key, key)
        with trio.fail_after(120):
            while await serial_number(api.addresses.quic) == before:
                await trio.sleep(0.2)


async def serial_number(address: Address) -> int:
    """Of the server's certificate, for a new connection."""
    async with connected(*address) as client, client.request(b"GET", b"/version", [], b"") as answer:
        assert answer.status == 200
        shown = client.quic.tls._peer_certificate
        assert shown is not None
        return shown.serial_number


async def test_refused_upload_leaves_the_connection_open() -> None:
    async with opened() as (_, client):
        fields = [*SIGNED_IN, (b"content-length", b"4000000")]
        async with client.request(b"POST", MAPS, fields, b" " * 4_000_000) as answer:
            assert answer.status == 413
            await body_of(answer)
        async with client.request(b"GET", b"/version", SIGNED_IN, b"") as answer:
            assert answer.status == 200


async def test_client_that_leaves_ends_its_watch() -> None:
    observer = Observer()
    async with opened(Extensions(observer=observer)) as (api, client):
        watch = MAPS + b"?watch=1"
        async with client.request(b"GET", watch, SIGNED_IN, b"") as answer:
            await api.create("configmaps", config_map("a"))
            assert orjson.loads(await anext(answer.parts))["object"]["metadata"]["name"] == "a"
        assert api.addresses.quic is not None
        async with connected(*api.addresses.quic) as other:
            scope = trio.CancelScope()
            with scope:
                async with other.request(b"GET", watch, SIGNED_IN, b"") as answer:
                    scope.cancel()
                    await body_of(answer)
        watches = [one for one in await observer.ended(3, MAPS.decode()) if one.method == "GET"]
        assert [one.cut_off for one in watches] == [True, True]


async def test_client_that_does_not_read_holds_little_of_its_watches() -> None:
    count, size, watches = 20, 100_000, 8

    async def left_in_memory(api: Api) -> int:
        """Bytes, after some writes."""
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(count):
            await api.replace("configmaps", config_map("a", k=f"{number:02}" * (size // 2)))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    async with opened() as (api, client), AsyncExitStack() as stack:
        await api.create("configmaps", config_map("a"))
        tracemalloc.start()
        try:
            without_watches = await left_in_memory(api)
            target = MAPS + b"?watch=1&resourceVersion=" + (await api.head()).encode()
            for _ in range(watches):
                await stack.enter_async_context(client.request(b"GET", target, SIGNED_IN, b""))
            client.stop_reading()
            with_watches = await left_in_memory(api)
        finally:
            tracemalloc.stop()
        assert with_watches - without_watches < watches * count * size / 2
        assert api.addresses.quic is not None
        async with (
            connected(*api.addresses.quic) as other,
            other.request(b"GET", b"/version", SIGNED_IN, b"") as answer,
        ):
            assert answer.status == 200


async def test_response_left_in_its_middle_leaves_the_connection_open() -> None:
    async with opened() as (api, client):
        for number in range(15):
            await api.create("configmaps", config_map(f"a{number:02}", k="v" * 100_000))
        async with client.request(b"GET", MAPS + b"?limit=500", SIGNED_IN, b"") as answer:
            await anext(answer.parts)
        async with client.request(b"GET", MAPS + b"?limit=500", SIGNED_IN, b"") as answer:
            assert len(orjson.loads(await body_of(answer))["items"]) == 15


def test_flag_needs_the_transport_a_certificate_and_aioquic(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, wanted in (
        ({"quic_bind": "127.0.0.1:1"}, "needs --transport asgi"),
        ({"quic_bind": "443", "transport": "asgi"}, "is not HOST:PORT"),
        (
            {"quic_bind": "[::1]:1", "transport": "asgi", "secure_port": 0, "insecure_port": 1},
            "needs the secure port",
        ),
    ):
        with pytest.raises(SettingsError, match=wanted):
            Settings(**given)  # type: ignore[arg-type]
    monkeypatch.setattr(settings_module, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install aioquic"):
        Settings(quic_bind="127.0.0.1:1", transport="asgi")


@cases(
    "field",
    [
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"close"),
        (b"upgrade", b"websocket"),
        (b"te", b"gzip"),
        (b"Upper", b"a"),
    ],
)
async def test_malformed_request_ends_its_connection_with_the_reason(field: tuple[bytes, bytes]) -> None:
    async with opened() as (_, client):
        with pytest.raises(EOFError):
            async with client.request(b"POST", MAPS, [*SIGNED_IN, field], b"{}"):
                pass
        assert client.closed_with == ErrorCode.H3_MESSAGE_ERROR

"""Documents are built once, in slices, so that they do not delay other requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from rewound.gateway.describe.openapi.documents import Documents
from tests.gateway.api import served


async def test_other_requests_are_served_while_a_document_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    responded = trio.Event()

    def pieces(_: Documents, *__: object) -> Iterator[bytes]:
        while not responded.is_set():  # for ever, if no other task could run
            yield b""
        yield b"{}"

    monkeypatch.setattr(Documents, "version_2", pieces)
    async with served() as api, trio.open_nursery() as nursery:

        async def other() -> None:
            assert (await api.ask("GET", "/livez")).text == "ok"
            await api.create("configmaps", {"metadata": {"name": "meanwhile"}})
            responded.set()

        nursery.start_soon(other)
        assert (await api.ask("GET", "/openapi/v2")).document == {}


async def test_concurrent_requests_share_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def pieces(_: Documents, *__: object) -> Iterator[bytes]:
        nonlocal made
        made += 1
        yield b"{}"

    monkeypatch.setattr(Documents, "version_2", pieces)
    async with served() as api, trio.open_nursery() as nursery:

        async def ask() -> None:
            assert (await api.ask("GET", "/openapi/v2")).document == {}

        for _ in range(5):
            nursery.start_soon(ask)
    assert made == 1


async def test_failure_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        with monkeypatch.context() as broken:
            broken.setattr(Documents, "version_2", lambda *_: 1 / 0)
            assert (await api.ask("GET", "/openapi/v2")).status == 500
        assert (await api.ask("GET", "/openapi/v2")).expect(200)["swagger"] == "2.0"


def test_modules_are_imported_on_first_use() -> None:
    import subprocess
    import sys

    module = "rewound.gateway.describe.openapi.documents"
    loaded = f"import rewound.server.run, sys; print({module!r} in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "False"

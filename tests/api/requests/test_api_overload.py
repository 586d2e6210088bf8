"""A full mailbox or disk refuses writes with 429 or 507 and Retry-After; reads continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal.errors import StorageFull
from rewound.journal.log import Journal
from tests.gateway.api import config_map, names, served


async def test_full_mailbox_refuses_writes_with_429(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        monkeypatch.setattr("rewound.actors.resource.actor.MAILBOX_CAPACITY", 0)
        response = await api.ask("POST", api.path("configmaps"), config_map("a"))
        status = response.expect(429)
        assert (status["reason"], status["details"]) == ("TooManyRequests", {"retryAfterSeconds": 1})
        assert response.headers["retry-after"] == "1"
        assert names(await api.list("configmaps")) == []
        assert (await api.ask("GET", "/readyz")).status == 200


async def test_full_disk_refuses_writes_with_507(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StorageFull(Path("data"), "No space left on device")

    async with served() as api:
        await api.create("configmaps", config_map("a"))
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "write", full)
            for method, path in (("POST", ""), ("PUT", "a"), ("DELETE", "a"), ("DELETE", "")):
                body = (
                    config_map("b")
                    if method == "POST"
                    else config_map("a", text="new")
                    if method == "PUT"
                    else None
                )
                response = await api.ask(method, api.path("configmaps", name=path), body)
                status = response.expect(507)
                assert status["reason"] == "InsufficientStorage"
                assert "No space left on device" in status["message"]
                assert "free some space" in status["message"]
            assert names(await api.list("configmaps")) == ["a"]
            assert "data" not in await api.get("configmaps", "a")
            assert [(await api.ask("GET", f"/{kind}")).status for kind in ("readyz", "livez")] == [500, 200]
            assert "[-]journal failed" in (await api.ask("GET", "/readyz?verbose")).text
            assert "No space left on device" in (await api.ask("GET", "/readyz/journal")).text
        await api.create("configmaps", config_map("b"))
        assert (await api.ask("GET", "/readyz")).status == 200

"""Files of a running server are damaged or changed: no wrong responses, refused writes, a failing /readyz."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rewound.journal.errors import StorageFull
from rewound.journal.log import Journal
from tests.gateway.api import config_map, names, served


async def test_damaged_object_is_reported_and_stops_writes(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await api.create("configmaps", config_map("good", text="sound"))
        await api.create("configmaps", config_map("rotten", text="before-the-damage"))
        data = next(tmp_path.rglob("data.mdb"))
        with data.open("r+b") as file:
            content = file.read()
            assert b"before-the-damage" in content
            file.seek(0)
            file.write(content.replace(b"before-the-damage", b"BEFORE-the-damage"))
        status = (await api.ask("GET", api.path("configmaps", name="rotten"))).expect(500)
        assert status["reason"] == "InternalError"
        assert "rotten does not match its checksum" in status["message"]
        assert str(tmp_path) not in status["message"]
        assert (await api.ask("GET", "/readyz")).status == 500
        assert "rotten does not match its checksum" in (await api.ask("GET", "/readyz/journal")).text
        assert (await api.ask("GET", "/livez")).status == 200
        refused = (await api.ask("POST", api.path("configmaps"), config_map("new"))).expect(507)
        assert "is not written any more" in refused["message"]
        assert (await api.get("configmaps", "good"))["data"] == {"text": "sound"}


async def test_replaced_data_file_stops_writes(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await api.create("configmaps", config_map("first"))
        data = next(tmp_path.rglob("data.mdb"))
        content = data.read_bytes()
        data.unlink()
        data.write_bytes(content)
        assert (await api.ask("GET", "/readyz")).status == 500
        reason = (await api.ask("GET", "/readyz/journal")).text
        assert "data.mdb was replaced by another file while the server ran" in reason
        refused = (await api.ask("POST", api.path("configmaps"), config_map("new"))).expect(507)
        assert "data.mdb was replaced by another file" in refused["message"]
        assert str(tmp_path) not in refused["message"]
        assert names(await api.list("configmaps")) == ["first"]


async def test_refused_write_names_the_folder_in_the_log_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise StorageFull(Path("/srv/rewound/journal"), "No space left on device")

    async with served() as api:
        monkeypatch.setattr(Journal, "write", full)
        with caplog.at_level(logging.ERROR):
            status = (await api.ask("POST", api.path("configmaps"), config_map("a"))).expect(507)
        assert "no room for the journal (No space left on device): free some space" in status["message"]
        assert "/srv" not in status["message"]
        assert "no room for the journal in /srv/rewound/journal" in caplog.text
        assert "/srv" not in (await api.ask("GET", "/readyz/journal")).text
        monkeypatch.undo()

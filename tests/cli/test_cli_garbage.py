"""A start runs no garbage collection, and later collections skip the objects that it created."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.server import process
from rewound.server.extensions import Extensions
from rewound.server.run import Announce


def test_garbage_is_collected_from_when_the_server_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    frozen = gc.get_freeze_count()

    async def started_and_stopped(_: Settings, announce: Announce, __: Extensions) -> None:
        seen.append(gc.isenabled())
        announce(Addresses(None, ("127.0.0.1", 1)))
        seen.append(gc.isenabled())

    monkeypatch.setattr(process, "serve_until_signal", started_and_stopped)
    assert main(["serve", "--data-dir", str(tmp_path), "--secure-port", "0", "--insecure-port", "1"]) == 0
    assert (seen, gc.isenabled()) == ([False, True], True)
    assert gc.get_freeze_count() > frozen


def test_failed_start_leaves_collection_on(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("not a folder")
    assert main(["serve", "--data-dir", str(tmp_path), "--secure-port", "0", "--insecure-port", "1"]) == 1
    assert gc.isenabled()

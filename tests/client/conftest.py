from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.command import Run, runner, served
from tests.client.fake_server import FakeServer


@pytest.fixture
def rewound(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(tmp_path, capsys, monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    """Makes the file the ~/.kube/config of commands."""
    (tmp_path / ".kube").mkdir()
    yield from served(tmp_path / ".kube" / "config")

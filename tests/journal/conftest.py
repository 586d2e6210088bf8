from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.journal import Journal
from tests.journal.model import Model


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal")
    yield opened
    opened.close()


@pytest.fixture
def model() -> Model:
    return Model()

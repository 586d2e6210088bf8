"""Chromium for the tests of the page; without one they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import find_chromium, running_chromium


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the DevTools of one browser, which all tests share; each page has a context of its own."""
    program = find_chromium()
    if program is None:
        pytest.skip("needs Chromium: make browser-test installs it")
    folder: Path = tmp_path_factory.mktemp("chromium")
    with running_chromium(program, folder) as address:
        yield address

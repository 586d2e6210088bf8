"""Large libraries are imported in a worker thread."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from actors.background_import import imported

MODULE = "import threading\nthread = threading.current_thread()\n"


async def test_imports_in_another_thread_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import_9c1f.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    first = await imported("slow_to_import_9c1f")
    assert first.thread is not threading.main_thread()
    assert await imported("slow_to_import_9c1f") is first is sys.modules["slow_to_import_9c1f"]


async def test_a_missing_module_is_an_error_every_time() -> None:
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            await imported("no_such_module_9c1f")

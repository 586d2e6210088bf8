"""Large libraries are imported in a worker thread; parts that need them are created on first use."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
import trio

from rewound.actors.runtime.background_import import OnDemand, imported

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


async def test_part_on_demand_is_made_with_its_first_use_and_is_the_same_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rarely_used_9c1f.py").write_text("made = 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    async def make() -> object:
        sys.modules["rarely_used_9c1f"].made += 1
        await trio.lowlevel.checkpoint()
        return object()

    part = OnDemand("rarely_used_9c1f", make)
    assert "rarely_used_9c1f" not in sys.modules
    got: list[object] = []

    async def use() -> None:
        got.append(await part.get())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use)
        nursery.start_soon(use)
    await use()
    assert len(set(map(id, got))) == 1
    assert sys.modules["rarely_used_9c1f"].made <= 2


async def test_part_that_could_not_be_made_is_made_by_the_next_use() -> None:
    failures = [OSError("no file descriptors")]

    async def make() -> str:
        if failures:
            raise failures.pop()
        return "made"

    part = OnDemand("sys", make)
    with pytest.raises(OSError, match="no file descriptors"):
        await part.get()
    assert await part.get() == "made"

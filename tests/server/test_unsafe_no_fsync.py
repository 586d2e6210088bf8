"""With --unsafe-no-fsync a commit does not wait for the disk, and survives a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.journal import environment
from tests.gateway.api import served


@pytest.mark.parametrize("unsafe", [False, True])
async def test_journal_is_opened_without_fsync(
    unsafe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []
    open_files = environment.open_files

    def recorded(*arguments: Any, **options: Any) -> Any:
        if not options["readonly"]:
            opened.append(options["sync"])
        return open_files(*arguments, **options)

    monkeypatch.setattr(environment, "open_files", recorded)
    async with served(tmp_path, unsafe_no_fsync=unsafe) as api:
        await api.create("configmaps", {"metadata": {"name": "kept"}})
    async with served(tmp_path, unsafe_no_fsync=unsafe) as api:
        assert (await api.get("configmaps", "kept"))["metadata"]["name"] == "kept"
    assert opened == [not unsafe] * 2

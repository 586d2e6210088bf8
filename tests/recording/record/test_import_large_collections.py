"""The work for the deletes of a deletecollection grows with their number, not with its square."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.recording.record.effects import TakenVersions
from tests.recording.record.test_import_collections import collection, shown
from tests.recording.record.test_import_command import audit, config_map, write

OBJECTS = 300


def test_each_delete_looks_for_its_version_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [
        config_map(10 + number, "x", f"object-{number}", uid=f"uid-{number}") for number in range(OBJECTS)
    ]
    log = write(
        tmp_path / "audit.log",
        *(audit("create", 1, one["metadata"]["name"], code=201, responseObject=one) for one in objects),
        collection(2, 3, *objects),
    )
    calls = 0
    first_free = TakenVersions.first_free

    def counted(numbers: TakenVersions, after: int) -> int:
        nonlocal calls
        calls += 1
        return first_free(numbers, after)

    monkeypatch.setattr(TakenVersions, "first_free", counted)
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    removed = [(offset, name) for offset, _, name, is_removed, _ in shown(tmp_path / "out") if is_removed]
    assert removed == [(10 + OBJECTS + number, f"object-{number}") for number in range(OBJECTS)]
    assert calls < 10 * OBJECTS

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from journal import Journal, keys
from tests.gateway.journal_commands import put, run_journal, write_history


def damage(folder: Path, offset: int) -> None:
    environment = lmdb.open(str(folder / "journal"), max_dbs=10)
    events = environment.open_db(b"events")
    with environment.begin(write=True) as txn:
        value = bytearray(txn.get(keys.pack_offset(offset), db=events))
        value[-1] ^= 1
        txn.put(keys.pack_offset(offset), bytes(value), db=events)
    environment.close()


def test_new_journal_is_sound(tmp_path: Path) -> None:
    Journal.open(tmp_path / "journal").close()
    result = run_journal("verify", f"--data-dir={tmp_path}")
    assert (result.code, result.out) == (0, "0 events, 0 objects, 0 snapshots\nsound\n")


def test_verify_as_json(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a"), put("b"), put("a")])
    assert run_journal("verify", "-o", "json", f"--data-dir={tmp_path}").document == {
        "sound": True,
        "events": 3,
        "objects": 2,
        "snapshots": 0,
        "wrong": 0,
        "differences": [],
    }


def test_damage_before_the_tail_is_found(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a")] + [put("b")] * 600)
    damage(tmp_path, 1)
    result = run_journal("verify", f"--data-dir={tmp_path}")
    assert result.code == 1
    assert "wrong: event 1 does not match its checksum" in result.lines
    assert result.lines[-1].endswith("wrong: restore the folder from a backup")
    assert run_journal("verify", "-o", "json", f"--data-dir={tmp_path}").document["sound"] is False


def test_verify_reports_a_damaged_tail_that_other_commands_refuse(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a"), put("b")])
    damage(tmp_path, 2)
    result = run_journal("verify", f"--data-dir={tmp_path}")
    assert result.code == 1
    assert "wrong: event 2 does not match its checksum" in result.lines
    result = run_journal("log", f"--data-dir={tmp_path}")
    assert (result.code, result.out) == (1, "")
    assert "is damaged at offset 2" in result.err
    assert "run `rewound journal verify`" in result.err


def test_verify_of_an_empty_folder_is_refused(tmp_path: Path) -> None:
    result = run_journal("verify", "--data-dir", tmp_path)
    assert result.code == 1
    assert "there is no journal in" in result.err


@pytest.mark.parametrize("command", ["verify", "srve"])
def test_top_level_verify_is_not_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from gateway.cli.main import main

    assert main([command]) == 2
    assert "is not a command" in capsys.readouterr().err

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from journal import Journal, keys
from tests.gateway.chronicle import ask, put, tell


def damage(folder: Path, offset: int) -> None:
    environment = lmdb.open(str(folder / "journal"), max_dbs=10)
    events = environment.open_db(b"events")
    with environment.begin(write=True) as txn:
        value = bytearray(txn.get(keys.pack_offset(offset), db=events))
        value[-1] ^= 1
        txn.put(keys.pack_offset(offset), bytes(value), db=events)
    environment.close()


def test_a_new_journal_is_sound(tmp_path: Path) -> None:
    Journal.open(tmp_path / "journal").close()
    said = ask("verify", f"--data-dir={tmp_path}")
    assert (said.code, said.out) == (0, "0 events, 0 objects, 0 snapshots\nsound\n")


def test_for_programs(tmp_path: Path) -> None:
    tell(tmp_path, [put("a"), put("b"), put("a")])
    assert ask("verify", "-o", "json", f"--data-dir={tmp_path}").document == {
        "sound": True,
        "events": 3,
        "objects": 2,
        "snapshots": 0,
        "wrong": 0,
        "differences": [],
    }


def test_damage_far_back_is_found(tmp_path: Path) -> None:
    tell(tmp_path, [put("a")] + [put("b")] * 600)
    damage(tmp_path, 1)
    said = ask("verify", f"--data-dir={tmp_path}")
    assert said.code == 1
    assert "wrong: event 1 does not match its checksum" in said.lines
    assert said.lines[-1].endswith("wrong: restore the folder from a backup")
    assert ask("verify", "-o", "json", f"--data-dir={tmp_path}").document["sound"] is False


def test_a_damaged_tail_is_examined_here_and_refused_elsewhere(tmp_path: Path) -> None:
    tell(tmp_path, [put("a"), put("b")])
    damage(tmp_path, 2)
    said = ask("verify", f"--data-dir={tmp_path}")
    assert said.code == 1
    assert "wrong: event 2 does not match its checksum" in said.lines
    said = ask("log", f"--data-dir={tmp_path}")
    assert (said.code, said.out) == (1, "")
    assert "is damaged at offset 2" in said.err
    assert "run `rewound journal verify`" in said.err


def test_where_there_is_nothing(tmp_path: Path) -> None:
    said = ask("verify", "--data-dir", tmp_path)
    assert said.code == 1
    assert "there is no journal in" in said.err


@pytest.mark.parametrize("command", ["verify", "srve"])
def test_the_old_place_is_gone(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from gateway.cli.main import main

    assert main([command]) == 2
    assert "is not a command" in capsys.readouterr().err

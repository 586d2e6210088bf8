from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import lmdb
import pytest

from rewound.cli.journal import verify
from rewound.client.errors import Failure
from rewound.journal import Journal, keys
from tests.gateway.journal_commands import put, run_journal, write_history

NOTHING = sha256().hexdigest()


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
    counts, digest, verified, sound = result.lines
    assert (result.code, counts, sound) == (0, "0 events, 0 objects, 0 snapshots", "sound")
    assert digest == f"digest {NOTHING}"
    assert verified.startswith(f"verified {tmp_path}: every page and checksum; ")


def test_verify_as_json(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a"), put("b"), put("a")])
    document = run_journal("verify", "-o", "json", f"--data-dir={tmp_path}").document
    assert document == {
        "verified": str(tmp_path),
        "sound": True,
        "pages": 8,
        "events": 3,
        "objects": 2,
        "snapshots": 0,
        "digest": document["digest"],
        "wrong": 0,
        "damage": [],
        "differences": [],
        "recoverable": "",
        "quarantined": [],
    }


def test_digest_is_that_of_the_events_after_an_offset(tmp_path: Path) -> None:
    write_history(tmp_path / "one", [put("a"), put("b"), put("a", {"x": "1"})])
    write_history(tmp_path / "two", [put("a"), put("b"), put("a", {"x": "2"})])
    write_history(tmp_path / "same", [put("a"), put("b"), put("a", {"x": "1"})])

    def digest(folder: str, after: int = 0) -> str:
        flag = f"--digest-after={after}"
        return str(run_journal("verify", "-o", "json", tmp_path / folder, flag).document["digest"])

    assert digest("one") == digest("same") != digest("two")
    assert digest("one", 1) == digest("same", 1) != digest("one")
    assert digest("one", 3) == digest("two", 3) == NOTHING
    assert "is not a version" in run_journal("verify", "--digest-after=x").err


def test_damage_before_the_tail_is_found(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a")] + [put("b")] * 600)
    damage(tmp_path, 1)
    result = run_journal("verify", f"--data-dir={tmp_path}")
    assert result.code == 1
    assert "wrong: event 1 does not match its checksum" in result.lines
    assert "wrong: restore the folder from a backup" in result.lines[-1]
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


def leaf_pages(data: bytes) -> list[int]:
    """The numbers of all pages with the flags of a leaf page."""
    return [at // 4096 for at in range(8192, len(data), 4096) if data[at + 10 : at + 12] == b"\x02\0"]


def test_zeroed_pages_are_reported_one_by_one(tmp_path: Path) -> None:
    """LMDB itself crashes on them, and so do commands that use it, without a message."""
    write_history(tmp_path, [put(f"web-{at:03}", {"text": "x" * 900}) for at in range(60)])
    file = tmp_path / "journal" / "data.mdb"
    data = bytearray(file.read_bytes())
    zeroed = leaf_pages(data)[3:9]
    for page in zeroed:
        data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    file.write_bytes(data)
    result = run_journal("verify", f"--data-dir={tmp_path}")
    assert (result.code, result.err) == (1, "")
    found = run_journal("verify", "-o", "json", f"--data-dir={tmp_path}").document
    reached = [one for one in found["damage"] if one["page"] in zeroed]
    assert reached and all(one["what"] == "it is empty" for one in reached)
    assert all("cannot be read" in one["means"] for one in reached)
    assert not found["sound"] and found["wrong"] == len(found["damage"])


def test_damaged_page_is_reported_with_its_objects(tmp_path: Path) -> None:
    write_history(tmp_path, [put(f"web-{at:03}", {"text": "x" * 900}) for at in range(60)])
    file = tmp_path / "journal" / "data.mdb"
    data = bytearray(file.read_bytes())
    key = b"\0\1default\0web-030"  # the index by object has more behind it
    pages = {at: data[at * 4096 : (at + 1) * 4096] for at in leaf_pages(data)}
    for page, content in pages.items():  # one of them; LMDB leaves old bytes in the free space of others
        if key in content and key + b"\0" not in content:
            data[page * 4096 + 12] ^= 0x80  # where its free space begins
    file.write_bytes(data)
    lines = [line for line in run_journal("verify", f"--data-dir={tmp_path}").lines if "(state)" in line]
    assert any("objects from configmaps default/web-0" in line for line in lines)
    saved = "`rewound journal recover` would save 60 objects and 60 events; 0 objects and 0 events are lost"
    assert saved in run_journal("verify", tmp_path).lines
    assert all("cannot be read" in line for line in lines)


def test_truncated_file_is_reported(tmp_path: Path) -> None:
    write_history(tmp_path, [put(f"web-{at:03}", {"text": "x" * 900}) for at in range(60)])
    file = tmp_path / "journal" / "data.mdb"
    with file.open("r+b") as stream:
        stream.truncate(10 * 4096)
    result = run_journal("verify", f"--data-dir={tmp_path}")
    assert (result.code, result.err) == (1, "")
    assert "the file ends at page 10" in result.out


@pytest.mark.parametrize("position", [128, 4096 + 128])
def test_flipped_root_of_the_databases_is_reported(tmp_path: Path, position: int) -> None:
    write_history(tmp_path, [put("a"), put("b")])
    file = tmp_path / "journal" / "data.mdb"
    data = bytearray(file.read_bytes())
    data[position + 7] ^= 0x80
    file.write_bytes(data)
    result = run_journal("verify", f"--data-dir={tmp_path}")
    assert result.code == 1
    assert f"page {position // 4096}: it says that a tree begins at page" in result.out


def test_child_that_dies_is_reported() -> None:
    report = "print('{\"progress\": [7, 90]}', flush=True)"
    script = f"import os; {report}; os.write(2, b'mdb.c: no\\n'); os.kill(os.getpid(), 7)"
    found = verify.read_in_child([sys.executable, "-c", script])
    assert found.sentences == ["the process that read the file was ended by SIGBUS after 7 of 90 (mdb.c: no)"]
    assert found.wrong == 1


def test_child_that_refuses_the_folder_is_an_error() -> None:
    with pytest.raises(Failure, match="no journal"):
        verify.read_in_child([sys.executable, "-c", 'print(\'{"refused": "no journal"}\')'])

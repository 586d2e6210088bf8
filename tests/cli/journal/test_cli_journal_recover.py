from __future__ import annotations

from pathlib import Path

from rewound.journal.keys import pack_offset
from rewound.journal.log import Journal
from rewound.journal.records import encode_event
from tests.gateway.journal_commands import put, run_journal, write_history


def bytes_of_event(folder: Path, offset: int) -> bytes:
    """As they are in the file."""
    journal = Journal.open(folder / "journal", readonly=True)
    with journal.read() as view:
        event = view.event(offset)
    journal.close()
    assert event is not None
    return encode_event(pack_offset(offset), event)


def damaged(folder: Path, text: bytes) -> None:
    """Flip a bit in every copy of a text in the file."""
    file = folder / "journal" / "data.mdb"
    data = bytearray(file.read_bytes())
    at = data.find(text)
    assert at >= 0
    while at >= 0:
        data[at] ^= 1
        at = data.find(text, at + 1)
    file.write_bytes(data)


def test_lost_version_is_listed_and_replaced(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    write_history(
        old, [put("web", {"color": "blue"}), put("api", {"color": "grey"}), put("web", {"color": "orange"})]
    )
    for text in (b"orange", bytes_of_event(old, 3)):  # its row and its event
        damaged(old, text)
    assert run_journal("verify", old).code == 1
    result = run_journal("recover", old, new)
    assert (result.code, result.err) == (0, "")
    assert "lost: configmaps default/web, version 3: it has the content of version 1" in result.lines
    assert "lost: 1 events: 3" in result.lines
    assert f"recovered 2 objects and 3 events up to 4 into {new}" in result.lines
    assert result.lines[-1] == f"serve it with: rewound serve --data-dir {new}"
    assert run_journal("verify", new).lines[-1] == "sound"
    state = run_journal("state", "-o", "json", "--data-dir", new).document
    colors = {item["metadata"]["name"]: item["data"]["color"] for item in state["items"]}
    assert colors == {"web": "blue", "api": "grey"}
    versions = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in state["items"]}
    assert versions == {"web": "4", "api": "2"}
    (renewed,) = run_journal("show", "4", "-o", "json", "--data-dir", new).documents
    assert (renewed["verb"], renewed["user"]) == ("recover", "rewound journal recover")


def test_damage_that_costs_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    write_history(old, [put("web", {"color": "blue"}), put("web", {"color": "orange"})])
    file = old / "journal" / "data.mdb"
    data = bytearray(file.read_bytes())
    data[128] ^= 64  # the root of the databases, in the meta page that counts or in the one before it
    file.write_bytes(data)
    found = run_journal("recover", old, new, "-o", "json").document
    assert found["complete"] is True
    assert (found["objects"], found["events"], found["head"], found["lost_objects"]) == (1, 2, 2, [])


def test_damaged_folder_is_the_data_dir_unless_it_is_named(tmp_path: Path) -> None:
    write_history(tmp_path / "old", [put("web")])
    result = run_journal("recover", tmp_path / "new", "--data-dir", tmp_path / "old")
    assert result.code == 0 and "nothing is lost" in result.lines


def test_existing_folder_is_refused(tmp_path: Path) -> None:
    write_history(tmp_path / "old", [put("web")])
    (tmp_path / "new").mkdir()
    result = run_journal("recover", tmp_path / "old", tmp_path / "new")
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith("new exists; name a folder that does not\n")


def test_certificates_are_to_be_copied(tmp_path: Path) -> None:
    write_history(tmp_path / "old", [put("web")], dialect="kubernetes")
    (tmp_path / "old" / "pki").mkdir()
    result = run_journal("recover", tmp_path / "old", tmp_path / "new")
    assert result.lines[-2:] == [
        f"copy the certificates with: cp -a {tmp_path / 'old'}/pki {tmp_path / 'new'}/",
        f"serve it with: rewound serve --data-dir {tmp_path / 'new'} --dialect kubernetes",
    ]


def test_two_damaged_folders_are_refused(tmp_path: Path) -> None:
    write_history(tmp_path / "old", [put("web")])
    for command in (["recover", tmp_path / "old", tmp_path / "new"], ["verify", tmp_path / "old"]):
        result = run_journal(*command, "--data-dir", tmp_path / "other")
        assert result.code == 2
        assert (
            f"--data-dir: names {tmp_path / 'other'}" in result.err and "leave one of them out" in result.err
        )
    assert not (tmp_path / "new").exists()

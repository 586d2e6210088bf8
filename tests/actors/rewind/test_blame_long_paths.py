"""The time of blame does not grow with the length of a huge key times the number of fields below it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.actors.rewind import blame as module
from rewound.actors.rewind.blame import Blame, blame
from rewound.actors.rewind.documents import blame_document, blame_lines
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.versions import Address, newest
from rewound.journal import Event, Journal

KEY = "k" * 200_000
FIELDS = 5_000


def blamed(folder: Path, content: dict[str, Any], user: str = "u") -> Blame:
    journal = Journal.open(folder / "journal")
    journal.register_type("things")
    body = orjson.dumps({"metadata": {"name": "a", "resourceVersion": "1"}, **content})
    journal.append([Event(1, 1, "create", "", "a", 0, False, 1, user, "m", b"", body)])
    last = run(newest(journal, Address(1, "", "a"), 100))
    assert last is not None
    try:
        return run(blame(journal, last))
    finally:
        journal.close()


@pytest.mark.parametrize("as_list", [False, True])
def test_a_huge_key_is_held_and_shown_once(tmp_path: Path, as_list: bool) -> None:
    inner: Any = [{"v": n} for n in range(FIELDS)] if as_list else {f"f{n}": n for n in range(FIELDS)}
    tracemalloc.start()
    try:
        found = blamed(tmp_path, {"data": {KEY: inner, "short": 1}})
        document = orjson.dumps(blame_document(found))
        text = "\n".join(blame_lines(found))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 40 << 20, most  # whole paths are 1 GB
    assert len(document) < 1_000 * FIELDS and len(text) < 1_000 * FIELDS
    fields = {one.field: one for one in found.fields}
    assert len(fields) == FIELDS + 2, "each has a path of its own"
    assert found.left_out == 0
    assert fields["data.short"].pointer == "/data/short"
    below = [one for one in found.fields if one.field.startswith('data["k')]
    assert len(below) == FIELDS
    assert all(one.pointer is None for one in below)
    assert all("path" not in one for one in blame_document(found) if one["field"].startswith('data["k'))


def test_pointers_are_whole_up_to_their_limit(tmp_path: Path) -> None:
    room = module.MAX_POINTER - len("/data//x")
    found = blamed(tmp_path, {"data": {"a" * room: {"x": 1, "xy": 2}}})
    pointers = {one.value: one.pointer for one in found.fields}
    assert pointers[1] == f"/data/{'a' * room}/x"
    assert pointers[2] is None


def test_fields_without_room_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TEXT", 1_000)
    found = blamed(tmp_path, {"data": {f"f{n}": n for n in range(100)}})
    assert 0 < len(found.fields) < 100
    assert len(found.fields) + found.left_out == 101
    assert found.fields[-1].field == f"data.f{len(found.fields) - 2}", "the first fields are shown"
    assert list(blame_lines(found))[-1].startswith(f"{found.left_out} more fields are left out")


def test_a_huge_user_does_not_fill_the_response(tmp_path: Path) -> None:
    """A header may have a megabyte, and each field names its user."""
    found = blamed(tmp_path, {"data": {f"f{n}": n for n in range(200)}}, user="u" * 1_000_000)
    assert found.left_out > 100
    assert len(orjson.dumps(blame_document(found))) <= module.MAX_TEXT

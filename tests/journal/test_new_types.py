"""The checksum of the database `meta` stays correct while types are added, and the other types are read only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.journal import Journal, keys, records


def stored_meta(journal: Journal) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    environment = journal.environment

    def read(txn: Any) -> None:
        found.update((bytes(key), bytes(value)) for key, value in txn.cursor(environment.databases.meta))

    environment.write(read)
    return found


def is_sound(journal: Journal) -> bool:
    stored = stored_meta(journal)
    return stored[keys.CHECK] == records.meta_check(stored)


def raise_floor(journal: Journal, floor: int) -> None:
    """As retention does, which computes the checksum of all records again."""
    environment = journal.environment
    changes = {keys.FLOOR: keys.pack_offset(floor)}
    environment.write(lambda txn: records.put_meta(txn, environment.databases.meta, changes))


def test_checksum_is_right_after_every_new_type(journal: Journal) -> None:
    for name in ("pods.b", "pods.a", "a.c", "z.z", "pods.b"):
        journal.register_types([name, f"{name}.more"])
        assert is_sound(journal)


def test_checksum_is_right_after_another_writer_of_the_records(journal: Journal, tmp_path: Path) -> None:
    journal.register_types(["a.a"])
    raise_floor(journal, 7)
    journal.register_types(["b.b"])
    assert is_sound(journal)
    assert stored_meta(journal)[keys.FLOOR] == keys.pack_offset(7)
    journal.close()
    with_types = Journal.open(tmp_path / "journal")
    assert {"a.a", "b.b"} <= with_types.types().keys()
    with_types.close()


def test_checksum_is_right_after_a_transaction_that_failed(journal: Journal) -> None:
    journal.register_types(["a.a"])

    def fail(txn: Any) -> None:
        journal._put_types(txn, {"lost.b": 900})
        raise KeyError("the transaction fails")

    with pytest.raises(KeyError, match="the transaction fails"):
        journal.environment.write(fail)
    journal.register_types(["c.c"])
    assert is_sound(journal)
    assert keys.TYPE_PREFIX + b"lost.b" not in stored_meta(journal)


def test_other_types_are_read_once(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    original = records.MetaWriter._read

    def counted(writer: records.MetaWriter, txn: Any, database: Any) -> None:
        nonlocal reads
        reads += 1
        original(writer, txn, database)

    monkeypatch.setattr(records.MetaWriter, "_read", counted)
    for number in range(5):
        journal.register_types([f"kind{number}.example.com"])
    assert reads == 1

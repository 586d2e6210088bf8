"""An import restores the exported journal, before and after compaction."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import msgpack
import pytest

from rewound.journal import Event, Journal, retention, snapshot_writer
from rewound.journal.errors import JournalExists, NewerLayout
from rewound.journal.repair import verify
from rewound.journal.transfer import MAGIC, Header, _Frames, export, restore
from tests.journal.model import Model

BODY = b'{"a":1}'


def exported(journal: Journal) -> bytes:
    stream = io.BytesIO()
    with journal.read() as view:
        export(view, stream)
    return stream.getvalue()


def everything(journal: Journal) -> list[object]:
    """Everything that can be read from a journal."""
    with journal.read() as view:
        events = list(view.all_events(0))
        rows = {number: list(view.rows(number)) for number in journal.types().values()}
        counts = {number: view.count(number) for number in journal.types().values()}
        past = {
            (at, number): list(view.at(at).rows(number))
            for at in (view.floor, (view.floor + view.head) // 2)
            for number in rows
        }
        assert verify.verify(view).differences == []
        return [journal.dialect, journal.types(), view.head, view.floor, events, rows, counts, past]


def fill(journal: Journal, model: Model, count: int = 120) -> None:
    generator = random.Random(3)
    for name in ("configmaps", "leases.coordination", "unused"):
        journal.register_type(name)
    events = []
    for _ in range(count):
        name, kind = f"n{generator.randrange(20)}", generator.choice([1, 2])
        there = (kind, "default", name) in model.state()
        removes = there and generator.random() < 0.3
        events.append((model.remove if removes else model.put)(name, type_id=kind))
    journal.append(events)


def restored(file: bytes, folder: Path) -> list[object]:
    restore(io.BytesIO(file), folder)
    journal = Journal.open(folder, readonly=True)
    try:
        return everything(journal)
    finally:
        journal.close()


def test_import_restores_the_exported_journal(journal: Journal, model: Model, tmp_path: Path) -> None:
    fill(journal, model)
    assert restored(exported(journal), tmp_path / "copy") == everything(journal)


@pytest.mark.parametrize("floor", [1, 77, 119])
def test_import_restores_a_compacted_journal(
    journal: Journal, model: Model, tmp_path: Path, floor: int
) -> None:
    fill(journal, model)
    while not retention.advance(journal, floor).done:
        pass
    list(snapshot_writer.take(journal))
    assert restored(exported(journal), tmp_path / "copy") == everything(journal)


def test_empty_journal_can_be_exported(journal: Journal, tmp_path: Path) -> None:
    assert restored(exported(journal), tmp_path / "copy") == everything(journal)


def test_second_export_has_the_same_records(journal: Journal, model: Model, tmp_path: Path) -> None:
    fill(journal, model, 40)
    first = exported(journal)
    restore(io.BytesIO(first), tmp_path / "copy")
    copy = Journal.open(tmp_path / "copy", readonly=True)
    second = exported(copy)
    copy.close()
    # Only the header differs: it has the time of the export.
    assert len(first) == len(second)


def test_imported_journal_accepts_appends(journal: Journal, model: Model, tmp_path: Path) -> None:
    fill(journal, model, 40)
    while not retention.advance(journal, 30).done:
        pass
    restore(io.BytesIO(exported(journal)), tmp_path / "copy")
    copy = Journal.open(tmp_path / "copy")
    copy.append([model.put("fresh"), model.put("n3")])
    everything(copy)
    copy.close()


def test_many_large_events_are_imported_in_batches(journal: Journal, model: Model, tmp_path: Path) -> None:
    journal.register_type("configmaps")
    large = model.put("n", filler=', "x":"' + "y" * 900_000 + '"')
    small = model.put("m")
    journal.append([large._replace(offset=1 + i, name=f"n{i}") for i in range(12)])
    journal.append([small._replace(offset=13 + i, name=f"m{i}") for i in range(2500)])
    progress: list[tuple[int, int]] = []
    restore(
        io.BytesIO(exported(journal)), tmp_path / "copy", lambda done, total: progress.append((done, total))
    )
    assert progress == sorted(progress)
    assert progress[-1] == (2512, 2512)


def test_export_has_the_types_of_its_transaction(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    journal.append([model.put("a")])
    with journal.read() as view:
        journal.register_type("secrets")
        header = export(view, io.BytesIO())
    assert (header.types, header.dialect) == ({"configmaps": 1}, "cluster")


def test_export_survives_gzip(journal: Journal, model: Model, tmp_path: Path) -> None:
    fill(journal, model, 40)
    packed = gzip.compress(exported(journal))
    with gzip.open(io.BytesIO(packed)) as stream:
        restore(stream, tmp_path / "copy")  # type: ignore[arg-type]
    assert (tmp_path / "copy" / "data.mdb").exists()


def test_import_refuses_a_folder_with_a_journal(journal: Journal, model: Model) -> None:
    fill(journal, model, 5)
    before = everything(journal)
    with pytest.raises(JournalExists, match="import into another data folder"):
        restore(io.BytesIO(exported(journal)), journal.path)
    assert everything(journal) == before


def test_file_of_a_newer_release_is_refused_as_newer(journal: Journal, tmp_path: Path) -> None:
    stream = io.BytesIO()
    _Frames(stream).write(msgpack.packb({"version": 2, "something": "else"}))
    assert stream.getvalue().startswith(MAGIC)
    with pytest.raises(NewerLayout, match="use the newer release"):
        restore(io.BytesIO(stream.getvalue()), tmp_path / "copy")


# Written by the first release: it must stay readable forever.
VERSION_1 = bytes.fromhex(
    "7265776f756e64206a6f75726e616c0a00000050d3879bd387a776657273696f6e01a76469616c656374a763"
    "6c7573746572a5747970657381aa636f6e6669676d61707301a5666c6f6f7200a46865616403a66576656e74"
    "7302a474696d65cf00060a24181e400000000041454327b90000000000000001011cf9022c9b01a663726561"
    "7465a764656661756c74a377656200c2cf00060a24180efdc0a5616c696365a16dc40166c4077b2261223a31"
    "7d0000003f14bd32ea0000000000000003011f21a3919b01a664656c657465a764656661756c74a377656201"
    "c3cf00060a2418169ee0a3626f62a16dc40166c4077b2261223a317d000000101c7af7270000000000000000"
    "0000000000000002"
)


def test_bytes_of_version_1(tmp_path: Path) -> None:
    header = restore(io.BytesIO(VERSION_1), tmp_path / "copy")
    assert header == Header(1, "cluster", {"configmaps": 1}, 0, 3, 2, 1_700_000_000_000_000)
    copy = Journal.open(tmp_path / "copy", readonly=True)
    with copy.read() as view:
        assert list(view.all_events(0)) == [
            Event(
                1, 1, "create", "default", "web", 0, False, 1_699_999_999_000_000, "alice", "m", b"f", BODY
            ),
            Event(3, 1, "delete", "default", "web", 1, True, 1_699_999_999_500_000, "bob", "m", b"f", BODY),
        ]
    copy.close()

"""Recovering a damaged folder creates a new one with everything that can be proven, nothing else, and no lower
version.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.journal import Journal, keys, records
from rewound.journal.environment import Databases
from rewound.journal.errors import AlreadyOpen, CannotRecover, JournalExists, NoJournal
from rewound.journal.files import identity
from rewound.journal.files.data_file import DATA
from rewound.journal.files.pages import PageFile, Walk, database_of
from rewound.journal.repair import verify
from rewound.journal.repair.recover import Recovered, recover
from tests.journal.model import Model, ram
from tests.robustness.sample_journal import TYPES, Name, Sample, make_sample

PAGE = 4096


@pytest.fixture(scope="module")
def sample() -> Iterator[Sample]:
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        yield make_sample(Path(folder))


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=ram()) as name:
        yield Path(name)


def roots(folder: Path) -> dict[str, int]:
    """The root page of each database."""
    file = PageFile(folder / DATA)
    meta = file.newest_meta()
    (leaf,) = Walk(file, "main", meta.main, meta.last_page).leaves()
    file.close()
    return {node.key.decode(): database_of(node).root for node in leaf.nodes}


def recovered(sample: Sample, folder: Path, data: bytes | bytearray) -> tuple[Recovered, dict[Name, int]]:
    """Recover a damaged copy; returns the report, and the versions of the objects in the new folder.

    Checks what holds for every damage: the result is sound, versions do not fall, every content was written once,
    and what is not as it was is reported.
    """
    sample.write_to(folder / "damaged", data)
    found = recover(folder / "damaged", folder / "new")
    assert (folder / "damaged" / DATA).read_bytes() == data
    journal = Journal.open(folder / "new")
    with journal.read() as view:
        assert verify.verify(view).differences == []
        rows = {
            (number, namespace, name): row
            for number in range(1, len(TYPES) + 1)
            for namespace, name, row in view.rows(number)
        }
        kept = [event for event in view.all_events(0) if event.verb != "recover"]
        assert view.head >= sample.head
    journal.close()
    assert all(sample.events[event.offset] == event for event in kept)
    lost = {(TYPES.index(one.type_name) + 1, one.namespace, one.name): one for one in found.lost_objects}
    for name in rows.keys() | sample.live.keys():
        if name not in lost:
            assert rows.get(name) == sample.live.get(name)
        elif lost[name].restored:
            assert text_of(rows[name].body) == text_of(sample.events[lost[name].restored].body)
        else:
            assert name not in rows
    return found, {name: row.offset for name, row in rows.items()}


def text_of(body: bytes) -> bytes:
    return body.partition(b'"data"')[2]


def is_complete(found: Recovered, sample: Sample) -> bool:
    return not (found.lost_objects or found.lost_events) and (found.head, found.floor) == (
        sample.head,
        sample.floor,
    )


def without(data: bytes, *texts: bytes) -> bytearray:
    """Flip a bit in every copy of some texts."""
    damaged = bytearray(data)
    for text in texts:
        at = damaged.find(text)
        assert at >= 0
        while at >= 0:
            damaged[at + len(text) // 2] ^= 1
            at = damaged.find(text, at + 1)
    return damaged


def signatures(sample: Sample, offset: int) -> list[bytes]:
    """Bytes that only this version has, in its row and in its event, as far as these exist."""
    event = sample.events[offset]
    stored = records.encode_event(keys.pack_offset(offset), event)
    middle = len(stored) // 2
    texts = text_of(event.body)[10:40], stored[middle : middle + 30]
    return [text for text in texts if text in sample.data]


def test_sound_folder_stays_as_it_is(sample: Sample, folder: Path) -> None:
    found, versions = recovered(sample, folder, sample.data)
    assert is_complete(found, sample) and not found.damage and not found.events_from_state
    assert versions == {name: row.offset for name, row in sample.live.items()}
    above = sum(offset > sample.floor for offset in sample.events)
    assert found.events == above + len(sample.state(sample.floor))


def test_every_step_reports_how_far_it_is(sample: Sample, folder: Path) -> None:
    damaged = sample.write_to(folder / "damaged", bytes(PAGE) + sample.data[PAGE:])
    steps: dict[str, list[tuple[int, int]]] = {}

    def progress(what: str, done: int, total: int) -> None:
        steps.setdefault(what, []).append((done, total))

    recover(damaged, folder / "new", progress=progress)
    assert list(steps) == [
        "recover: read pages",
        "recover: search pages for lost records",
        "recover: write events",
    ]
    assert all(0 <= done <= total for reports in steps.values() for done, total in reports)
    assert len(set(steps["recover: write events"][-1])) == 1  # all of them


@pytest.mark.parametrize("database", Databases._fields)
def test_lost_root_page_of_one_database_loses_no_object(sample: Sample, folder: Path, database: str) -> None:
    page = roots(sample.write_to(folder / "sound"))[database]
    data = bytearray(sample.data)
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    found, _ = recovered(sample, folder, data)
    assert found.lost_objects == []
    assert found.damage and f"page {page} ({database})" in found.damage[0]


@pytest.mark.parametrize("slot", [0, 1])
def test_lost_meta_page_loses_nothing(sample: Sample, folder: Path, slot: int) -> None:
    data = bytearray(sample.data)
    data[slot * PAGE : (slot + 1) * PAGE] = bytes(PAGE)
    found, _ = recovered(sample, folder, data)
    assert (found.lost_objects, found.lost_events, found.head) == ([], [], sample.head)


def test_both_meta_pages_lost(sample: Sample, folder: Path) -> None:
    found, _ = recovered(sample, folder, bytes(2 * PAGE) + sample.data[2 * PAGE :])
    assert (found.lost_objects, found.lost_events, found.head) == ([], [], sample.head)


def test_lost_newest_version_is_replaced_by_an_older_one_under_a_new_version(
    sample: Sample, folder: Path
) -> None:
    """The event and the row of the version are damaged: the previous one is the newest that is left."""
    name, row = next(
        (name, row)
        for name, row in sample.live.items()
        if row.offset > sample.floor and sample.events[row.offset].previous
    )
    found, versions = recovered(sample, folder, without(sample.data, *signatures(sample, row.offset)))
    (lost,) = found.lost_objects
    assert (lost.namespace, lost.name, lost.newest) == (name[1], name[2], row.offset)
    assert 0 < lost.restored <= sample.events[row.offset].previous
    assert versions[name] == found.head == sample.head + 1
    assert found.lost_events == [row.offset] and found.floor >= row.offset


def test_object_of_which_nothing_is_left_is_reported(sample: Sample, folder: Path) -> None:
    name, row = next(iter(sample.live.items()))
    versions = [
        event.offset
        for event in sample.events.values()
        if (event.type_id, event.namespace, event.name) == name
    ]
    left = [offset for offset in versions if signatures(sample, offset)]
    found, now = recovered(
        sample, folder, without(sample.data, *(text for at in left for text in signatures(sample, at)))
    )
    (lost,) = found.lost_objects
    assert (lost.name, lost.newest, lost.restored) == (name[2], row.offset, 0)
    assert name not in now


def test_version_never_falls_when_the_newest_event_is_lost(sample: Sample, folder: Path) -> None:
    newest = sample.events[sample.head]
    found, _ = recovered(sample, folder, without(sample.data, *signatures(sample, sample.head)))
    assert found.head == sample.head + 1
    assert found.lost_events == [newest.offset]


def test_removed_object_stays_removed_when_its_removal_is_lost(sample: Sample, folder: Path) -> None:
    removal = next(
        event
        for event in reversed(sample.events.values())
        if event.removed and (event.type_id, event.namespace, event.name) not in sample.live
    )
    assert removal.offset > sample.floor
    found, versions = recovered(sample, folder, without(sample.data, *signatures(sample, removal.offset)))
    assert found.lost_objects == [] and found.lost_events == [removal.offset]
    assert (removal.type_id, removal.namespace, removal.name) not in versions


def test_half_of_the_file_lost(sample: Sample, folder: Path) -> None:
    kept = roots(sample.write_to(folder / "sound"))[
        "meta"
    ]  # the names of types: no object is served without them
    data = bytearray(sample.data)
    for page in range(len(data) // PAGE // 2, len(data) // PAGE):
        if page != kept:
            data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    found, versions = recovered(sample, folder, data)
    assert found.damage and versions


def test_flipped_bit_in_the_name_of_a_type_is_repaired(sample: Sample, folder: Path) -> None:
    """No other copy of the names is certain; the checksum of all shows which bit is wrong."""
    page = roots(sample.write_to(folder / "sound"))["meta"]
    at = sample.data.index(b"type:secrets", page * PAGE, (page + 1) * PAGE)
    for bit in (1, 0x80):
        data = bytearray(sample.data)
        data[at + 7] ^= bit
        found, _ = recovered(sample, folder / str(bit), data)
        assert is_complete(found, sample)


def test_names_of_types_that_cannot_be_repaired_are_refused(sample: Sample, folder: Path) -> None:
    page = roots(sample.write_to(folder / "sound"))["meta"]
    at = sample.data.index(b"type:secrets", page * PAGE, (page + 1) * PAGE)
    data = bytearray(sample.data)
    data[at + 7 : at + 10] = b"xyz"
    sample.write_to(folder / "damaged", data)
    with pytest.raises(CannotRecover, match="the names of its types do not match their checksum"):
        recover(folder / "damaged", folder / "new")


def test_new_folder_is_of_the_same_cluster(sample: Sample, folder: Path) -> None:
    recovered(sample, folder, sample.data)
    before, after = identity.read(folder / "damaged"), identity.read(folder / "new")
    assert before is not None and after is not None
    assert before.cluster_id == after.cluster_id


def test_newest_commit_is_kept_when_its_meta_page_looks_older(folder: Path) -> None:
    """A transaction id that lost its second bit gives a valid pair of meta pages, whose newer one looks older."""
    for commits in (5, 6, 7):
        sample = make_sample(folder / str(commits), commits=commits)
        data = bytearray(sample.data)
        slot = max((0, 1), key=lambda slot: data[slot * PAGE + 144])
        if data[slot * PAGE + 144] & 2:
            break
    data[slot * PAGE + 144] -= 2
    found, _ = recovered(sample, folder, data)
    assert is_complete(found, sample)


def test_new_folder_must_not_exist(sample: Sample, folder: Path) -> None:
    sample.write_to(folder / "damaged")
    sample.write_to(folder / "new")
    with pytest.raises(JournalExists):
        recover(folder / "damaged", folder / "new")
    assert (folder / "new" / DATA).read_bytes() == sample.data


def test_folder_of_a_running_server_is_refused(folder: Path) -> None:
    journal = Journal.open(folder / "journal")
    with pytest.raises(AlreadyOpen, match="stop that server first"):
        recover(folder / "journal", folder / "new")
    journal.close()
    assert not (folder / "new").exists()
    assert recover(folder / "journal", folder / "new").head == 0


def test_folder_without_a_journal_is_refused(folder: Path) -> None:
    with pytest.raises(NoJournal):
        recover(folder / "nothing", folder / "new")
    assert list(folder.iterdir()) == []


def test_file_of_zeros_is_refused_and_leaves_nothing(sample: Sample, folder: Path) -> None:
    sample.write_to(folder / "damaged", bytes(len(sample.data)))
    with pytest.raises(CannotRecover, match="no object in it can be read"):
        recover(folder / "damaged", folder / "new")
    (folder / "damaged" / "identity").unlink()
    with pytest.raises(CannotRecover, match="its dialect is lost"):
        recover(folder / "damaged", folder / "new")
    assert not (folder / "new").exists()


def test_older_data_file_is_not_reported_as_complete(folder: Path) -> None:
    """The identity file knows of commits that the data file lacks."""
    data, model = folder / "damaged" / DATA, Model()
    older = b""
    for count in (5, 3):
        older = data.read_bytes() if data.exists() else b""
        journal = Journal.open(data.parent)
        journal.register_type("things")
        for _ in range(count):
            journal.append([model.put(f"n{model.head}")])
        journal.close()
    data.write_bytes(older)
    found = recover(data.parent, folder / "new")
    assert (found.objects, found.unknown) == (5, True)
    assert found.head > model.head

"""Files change under a running writer: it notices and stops writing; reads continue where they can."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rewound.journal import Event, Journal, environment
from rewound.journal.errors import AlreadyOpen, CannotGrow, CannotRead, Damaged, StorageFailed, WritesStopped
from rewound.server.memory_faults import EXIT_CODE, explain_memory_faults
from tests.journal.model import Model

WRITE_WITH_LMDB = """
import lmdb, sys
env = lmdb.open(sys.argv[1], max_dbs=10)
meta = env.open_db(b"meta", create=False)
with env.begin(write=True) as txn:
    txn.put(b"from another process", b"", db=meta)
"""


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch, journal: Journal, model: Model) -> Journal:
    """A journal whose every write checks the files."""
    monkeypatch.setattr(environment, "CHECK_INTERVAL", 0.0)
    journal.check()
    journal.append([model.put(f"n{i:02d}", filler="x" * 1000) for i in range(20)])
    return journal


def run(function: Callable[[str], None], path: Path) -> subprocess.CompletedProcess[str]:
    """Run a function of this module in another process, with a path."""
    script = f"from {__name__} import {function.__name__} as f; f({str(path)!r})"
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )


def test_deleted_lock_file_lets_no_second_writer_in(filled: Journal) -> None:
    (filled.path / "writer.lock").unlink()
    with pytest.raises(AlreadyOpen, match="is already being written by another process"):
        Journal.open(filled.path)
    assert filled.check() == ""


def test_second_writer_is_found_inside_the_next_transaction(filled: Journal, model: Model) -> None:
    subprocess.run([sys.executable, "-c", WRITE_WITH_LMDB, str(filled.path)], check=True, timeout=120)
    event = model.put("late")
    for _ in range(2):
        with pytest.raises(WritesStopped, match=r"another process wrote to the same file.*only one server"):
            filled.append([event])
    with filled.read() as view:
        assert view.head == filled.head == 20
        assert view.get(1, "default", "n05") is not None
    assert filled.check() == "another process wrote to the same file"


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replaced(path: Path) -> None:
    content = path.read_bytes()
    moved(path)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "problem"),
    [(moved, "data.mdb was removed"), (replaced, "data.mdb was replaced by another file")],
)
def test_writer_notices_another_file(
    filled: Journal,
    model: Model,
    change: Callable[[Path], None],
    problem: str,
) -> None:
    filled.append([model.put("before")])
    change(filled.path / "data.mdb")
    with pytest.raises(WritesStopped, match=problem):
        filled.append([model.put("after")])
    assert problem in filled.check()


def test_writer_notices_a_cut_file(filled: Journal, model: Model) -> None:
    filled.append([model.put("before")])
    assert filled.check() == ""
    size = (filled.path / "data.mdb").stat().st_size
    os.truncate(filled.path / "data.mdb", size - 4096)
    assert filled.check() == f"data.mdb was cut from {size} to {size - 4096} bytes while the server ran"
    with pytest.raises(WritesStopped, match=r"data.mdb was cut"):
        filled.append([model.put("after")])


def test_writer_notices_a_lost_lock(filled: Journal) -> None:
    data = filled.environment._data
    assert data is not None
    fcntl.flock(data.handle, fcntl.LOCK_UN)
    assert filled.check() == "the lock on data.mdb was lost while the server ran"


def test_process_without_free_file_descriptors_writes(filled: Journal, model: Model) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # none of those that are open is closed
    try:
        problem = filled.check()
        filled.append([model.put("b")])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert problem == ""
    assert filled.head == model.head


def test_damaged_record_stops_writes(filled: Journal, model: Model) -> None:
    data = filled.path / "data.mdb"
    with data.open("r+b") as file:
        content = file.read()
        body = model.events[5].body
        position = content.index(body)
        while position >= 0:
            file.seek(position + 8)
            file.write(b"\xff")
            position = content.find(body, position + 1)
    with pytest.raises(Damaged, match="n05"):
        filled.body(1, "default", "n05")
    with pytest.raises(WritesStopped, match="n05 does not match its checksum"):
        filled.append([model.put("after")])
    assert filled.body(1, "default", "n06") == model.events[6].body


def handles_of_data_file(*, synchronous: bool) -> Iterator[int]:
    """LMDB's file handles for writing: a synchronous one for meta pages, another for the rest."""
    for name in os.listdir("/proc/self/fd"):
        try:
            opened = os.readlink(f"/proc/self/fd/{name}")
            flags = fcntl.fcntl(int(name), fcntl.F_GETFL)
        except OSError:
            continue
        if opened.endswith("data.mdb") and bool(flags & os.O_DSYNC) == synchronous:
            yield int(name)


@contextmanager
def failing(handles: list[int]) -> Iterator[None]:
    """Writes to these handles fail."""
    assert handles
    kept = [os.dup(handle) for handle in handles]
    with Path(os.devnull).open("rb") as readonly:
        for handle in handles:
            os.dup2(readonly.fileno(), handle)
    yield
    for handle, copy in zip(handles, kept, strict=True):
        os.dup2(copy, handle)


def failing_pages(path: str) -> None:
    """Writing a page fails: that write is refused, and the next one works when the disk does."""
    journal, model = Journal.open(Path(path)), Model()
    journal.append([model.put("a")])
    event = model.put("b")
    own = journal.environment._data
    assert own is not None
    with failing([handle for handle in handles_of_data_file(synchronous=False) if handle != own.handle]):
        for _ in range(2):
            with pytest.raises(StorageFailed, match="check the disk"):
                journal.append([event])
        with journal.read() as view:
            assert view.head == journal.head == 1
    journal.append([event])
    assert journal.head == 2
    assert journal.check() == ""
    journal.close()


def failing_meta_page(path: str) -> None:
    """Writing the meta page fails: LMDB does not know what the file contains, and refuses everything."""
    journal, model = Journal.open(Path(path)), Model()
    journal.append([model.put("a")])
    event = model.put("b")
    with failing(list(handles_of_data_file(synchronous=True))):
        for expected in (StorageFailed, WritesStopped, WritesStopped):
            with pytest.raises(expected):
                journal.append([event])
    with pytest.raises(CannotRead, match="restart the server"), journal.read():
        pass
    assert journal.check()
    journal.close()


def test_failed_write_of_a_page_refuses_that_write(tmp_path: Path) -> None:
    done = run(failing_pages, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_failed_write_of_a_meta_page_stops_writes(tmp_path: Path) -> None:
    done = run(failing_meta_page, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    again = Journal.open(tmp_path)
    assert again.head == 1
    again.close()


def object_of_size(offset: int, body: bytes) -> Event:
    return Event(offset, 1, "create", "default", f"n{offset}", 0, False, offset, "alice", "tests", b"", body)


def small_address_space(path: str) -> None:
    journal = Journal.open(Path(path), map_size=8 << 20)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (7 << 20), hard))  # doubling the map takes 8
    body, refused = b"x" * 20_000, None
    for first in range(1, 1000, 10):
        batch = [object_of_size(offset, body) for offset in range(first, first + 10)]
        try:
            journal.append(batch)
        except CannotGrow as error:
            refused = error
            break
    assert refused is not None
    assert "address space" in str(refused)
    assert "ulimit -v" in str(refused)
    with journal.read() as view:
        assert view.count(1, None) == view.head == journal.head == first - 1
        assert view.page(1, None, limit=3).bodies == [body] * 3
    assert journal.check() == ""
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    journal.append(batch)
    assert journal.head == first + 9
    journal.close()


def test_map_that_cannot_grow_refuses_writes_and_serves_reads(tmp_path: Path) -> None:
    done = run(small_address_space, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def zeroed_pages(path: str) -> None:
    """Everything but the meta pages is overwritten under a running process."""
    explain_memory_faults(Path(path))
    journal, model = Journal.open(Path(path)), Model()
    for i in range(200):
        journal.append([model.put(f"n{i:03d}", filler="x" * 500)])
    with (Path(path) / "data.mdb").open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(2 * 4096)
        file.write(bytes(size - 2 * 4096))
    for read in (lambda: journal.body(1, "default", "n005"), lambda: journal.append([model.put("more")])):
        try:
            print("WRONG", read())
        except (Damaged, StorageFailed) as error:
            print(type(error).__name__)
    os._exit(0)


def test_zeroed_pages_end_in_an_error_or_a_clear_last_line(tmp_path: Path) -> None:
    done = run(zeroed_pages, tmp_path)
    assert "WRONG" not in done.stdout
    if done.returncode:
        assert done.returncode == EXIT_CODE
        assert done.stderr.splitlines()[-1].startswith("rewound: stopped by SIG")
    else:
        assert done.stdout.splitlines() == ["Damaged", "WritesStopped"]

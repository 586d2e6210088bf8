"""A full disk refuses writes, still serves reads, and accepts writes again when there is space."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from rewound.journal import Event, Journal
from rewound.journal.errors import StorageFailed, StorageFull
from rewound.journal.repair import verify
from tests.journal.model import Model

ROOM = 300 << 10


def scenario(path: str) -> None:
    """Runs in its own process, because the file size limit that simulates a full disk applies to the process."""
    journal, model = Journal.open(Path(path)), Model()
    journal.append([model.put("first")])
    limit = (Path(path) / "data.mdb").stat().st_size + ROOM
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    acknowledged = fill(journal, model)
    with journal.read() as view:
        assert view.head == journal.head == acknowledged
        assert view.get(1, "default", "first") is not None
        assert len(view.page(1, None).bodies) == view.count(1, None) == len(model.state(acknowledged))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    del model.events[acknowledged:]
    journal.append([model.put("back"), model.put("first")])
    journal.close()
    again = Journal.open(Path(path))
    with again.read() as view:
        assert view.head == acknowledged + 2
        assert verify.verify(view).differences == []
    again.close()
    print("held")


def fill(journal: Journal, model: Model) -> int:
    """Append until the journal refuses, and once more; returns the newest accepted offset."""
    while True:
        accepted = model.head
        batch = [model.put(f"n{model.head}", filler="x" * 5000) for _ in range(8)]
        if refused(journal, batch):
            assert refused(journal, batch)
            return accepted


def refused(journal: Journal, batch: list[Event]) -> bool:
    try:
        journal.append(batch)
    except StorageFull as full:
        return "File too large" in str(full) and "free some space" in str(full)
    return False


def test_full_disk_refuses_writes_and_serves_reads(tmp_path: Path) -> None:
    script = f"from tests.journal.test_full_disk import scenario; scenario({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.stderr) == ("held\n", "")


class Failing:
    """An LMDB environment on a disk that fails."""

    def __init__(self, code: int) -> None:
        self.code = code

    def begin(self, *_: object) -> None:
        raise lmdb.Error(f"mdb_txn_begin: {os.strerror(self.code)}")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EIO, StorageFailed),
        (errno.EROFS, StorageFailed),
    ],
)
def test_each_errno_raises_its_error(
    journal: Journal, model: Model, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[Exception]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(journal.environment, "_env", Failing(code))
        with pytest.raises(expected):
            journal.append([model.put("a")])
    assert journal.head == 0
    journal.append(model.events)
    assert journal.head == 1

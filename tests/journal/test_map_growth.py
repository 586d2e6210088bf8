from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from rewound.journal import Journal, environment
from rewound.journal.errors import StorageFailed
from rewound.journal.repair import verify
from tests.journal.model import Model

TINY = 128 << 10
FILLER = "x" * 2000


def grow(journal: Journal, model: Model, batches: int = 20) -> None:
    for _ in range(batches):
        journal.append([model.put(f"n{model.head % 50:02d}-{i}", filler=FILLER) for i in range(10)])


def test_map_grows_when_it_is_full(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path, map_size=TINY)
    grow(journal, model)
    assert journal.statistics()["grown"] > 1
    with journal.read() as view:
        assert view.page(1, None).bodies == [row.body for _, _, row in model.rows(1)]
        assert verify.verify(view).differences == []
    journal.close()
    again = Journal.open(tmp_path, map_size=TINY)
    grow(again, model, 2)
    assert again.head == model.head
    again.close()


def test_map_growth_waits_for_open_reads(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path, map_size=TINY)
    journal.append([model.put("first")])
    writer = threading.Thread(target=grow, args=(journal, model))
    with journal.read() as view:
        writer.start()
        while not journal.environment.resizing:
            writer.join(0.001)
            assert writer.is_alive()
        with journal.read() as inner:
            assert inner.get(1, "default", "first") == view.get(1, "default", "first") is not None
        assert view.count(1, None) == 1
    writer.join(60)
    assert journal.head == model.head
    journal.close()


def test_read_left_open_fails_the_write_after_a_timeout(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "RESIZE_TIMEOUT", 0.01)
    journal = Journal.open(tmp_path, map_size=TINY)
    with journal.read() as view:
        with pytest.raises(StorageFailed, match="a read was left open"):
            grow(journal, model)
        head = journal.head
        assert view.head == 0
    journal.append([model.put("a") for _ in range(1)] if model.head == head else [])
    journal.close()


def print_reads(path: str) -> None:
    """The other process: reads the journal for each line of stdin, and prints what it read."""
    journal = Journal.open(Path(path), readonly=True, map_size=TINY)
    for _ in sys.stdin:
        with journal.read() as view:
            page = view.page(1, None)
            old = view.at(view.head // 2).count(1, None) if view.head else 0
            print(view.head, journal.head, view.count(1, None), len(page.bodies), old, flush=True)
    journal.close()


@contextmanager
def other_process(path: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    script = f"from tests.journal.test_map_growth import print_reads; print_reads({str(path)!r})"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        yield reader.stdin, reader.stdout
        reader.stdin.close()
        assert reader.wait(60) == 0


def test_reader_in_another_process_sees_a_grown_map(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path, map_size=TINY)
    with other_process(tmp_path) as (stdin, stdout):
        for _ in range(12):
            grow(journal, model, 3)
            stdin.write("read\n")
            stdin.flush()
            live, old = len(model.state()), len(model.state(model.head // 2))
            assert stdout.readline().split() == [str(n) for n in (model.head, model.head, live, live, old)]
    assert journal.statistics()["grown"] > 1
    journal.close()

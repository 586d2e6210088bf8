"""`log -f` shows what is appended: while the map grows, while retention goes on, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson
import pytest

from gateway.cli.journal.query.failure import Failure
from gateway.cli.journal.query.follow import follow
from gateway.cli.journal.query.reading import Entry, Reading
from gateway.cli.journal.query.selection import Selection
from journal import Journal, retention
from tests.gateway.chronicle import Teller, gone, put
from tests.gateway.processes import heed_ctrl_c


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path / "journal", map_size=1 << 20)
    yield opened
    opened.close()


def followed(journal: Journal, cursor: int, *meanwhile: Callable[[], object]) -> list[int]:
    """Offsets that are shown while these things happen, one each time that there is nothing new."""
    shown: list[int] = []
    left = list(meanwhile)

    def wait() -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    def show(entries: Sequence[Entry]) -> None:
        shown.extend(entry.event.offset for entry in entries)

    follow(journal, Reading(journal, Selection()), cursor, show, wait)
    return shown


def test_what_comes_in_order_and_once(journal: Journal) -> None:
    teller = Teller(journal)
    teller.tell([put("a"), put("b")])
    shown = followed(
        journal,
        1,
        lambda: teller.tell([put("a", {"x": "y"})]),
        lambda: None,
        lambda: teller.tell([gone("a"), put("c")]),
    )
    assert shown == [2, 3, 4, 5]


def test_a_gap_that_retention_made_is_told(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller(journal)

    def much() -> None:
        teller.tell([put("a", {"at": str(at)}) for at in range(9)])
        while not retention.advance(journal, 6).done:
            pass

    assert followed(journal, 0, much) == [6, 7, 8, 9]
    assert capsys.readouterr().err == (
        "rewound: events between 0 and 6 may be missing: retention was faster than this\n"
    )


def test_a_folder_that_is_replaced_ends_it(journal: Journal) -> None:
    with pytest.raises(Failure, match="was removed or replaced; start again to follow it"):
        followed(journal, 0, lambda: os.rename(journal.path / "data.mdb", journal.path / "old"), lambda: None)


def test_another_process_that_grows_its_map_and_lets_go_of_history(journal: Journal, tmp_path: Path) -> None:
    teller = Teller(journal)
    teller.tell([put("first")])
    command = [sys.executable, "-m", "gateway.cli.main", "journal", "log", "-f", "-o", "json"]
    with subprocess.Popen(
        [*command, f"--data-dir={tmp_path}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    ) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        seen = [orjson.loads(following.stdout.readline())["offset"]]
        for turn in range(4):
            teller.tell([put(f"n{at}", {"filler": str(turn) * 20_000}) for at in range(40)])
            seen += [orjson.loads(following.stdout.readline())["offset"] for _ in range(40)]
            while not retention.advance(journal, journal.head).done:
                pass
        following.send_signal(signal.SIGINT)
        assert following.stderr.read() == b""
        assert following.wait(60) == 0
    assert journal.statistics()["grown"] > 0
    assert seen == list(range(1, 162))

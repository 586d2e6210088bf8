"""`log -f` shows appended events: while the map grows, while retention compacts, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from rewound.client.errors import Failure
from rewound.journal import Journal, retention
from rewound.recording.query.entries import Selection
from rewound.recording.query.events import EventReader, new_entries
from rewound.recording.query.folder import Kinds, Masking
from tests.gateway.journal_commands import HistoryWriter, delete, put
from tests.gateway.processes import heed_ctrl_c
from tests.no_progress import COMMAND


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    open_folder = Journal.open(tmp_path / "journal", map_size=1 << 20)
    yield open_folder
    open_folder.close()


def followed(journal: Journal, cursor: int, *meanwhile: Callable[[], object]) -> list[int]:
    """The offsets that are shown while the actions run, one each time there is nothing new."""
    shown: list[int] = []
    left = list(meanwhile)

    def wait() -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    reader = EventReader(journal, Selection(), Masking(Kinds(journal), show_secrets=False))
    with suppress(KeyboardInterrupt):
        for entries in new_entries(journal, reader, cursor, wait):
            shown.extend(entry.event.offset for entry in entries)
    return shown


def test_new_events_are_shown_once_in_order(journal: Journal) -> None:
    writer = HistoryWriter(journal)
    writer.write([put("a"), put("b")])
    shown = followed(
        journal,
        1,
        lambda: writer.write([put("a", {"x": "y"})]),
        lambda: None,
        lambda: writer.write([delete("a"), put("c")]),
    )
    assert shown == [2, 3, 4, 5]


def test_gap_made_by_retention_gets_a_warning(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    writer = HistoryWriter(journal)

    def much() -> None:
        writer.write([put("a", {"at": str(at)}) for at in range(9)])
        while not retention.advance(journal, 6).done:
            pass

    assert followed(journal, 0, much) == [6, 7, 8, 9]
    assert capsys.readouterr().err == (
        "rewound: events between 0 and 6 may be missing: retention removed them first\n"
    )


def test_replaced_folder_ends_following(journal: Journal) -> None:
    with pytest.raises(Failure, match="was removed or replaced; start again to follow it"):
        followed(journal, 0, lambda: os.rename(journal.path / "data.mdb", journal.path / "old"), lambda: None)


def test_follows_a_process_that_grows_its_map_and_compacts(journal: Journal, tmp_path: Path) -> None:
    writer = HistoryWriter(journal)
    writer.write([put("first")])
    command = [*COMMAND, "journal", "log", "-f", "-o", "json"]
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
            writer.write([put(f"n{at}", {"filler": str(turn) * 20_000}) for at in range(40)])
            seen += [orjson.loads(following.stdout.readline())["offset"] for _ in range(40)]
            while not retention.advance(journal, journal.head).done:
                pass
        following.send_signal(signal.SIGINT)
        assert following.stderr.read() == b""
        assert following.wait(60) == 0
    assert journal.statistics()["grown"] > 0
    assert seen == list(range(1, 162))

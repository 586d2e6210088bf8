"""Long work reports progress on stderr: on a terminal in one line, elsewhere in a new line from time to time."""

from __future__ import annotations

import io
import threading

import pytest

from rewound.recording import progress as module
from rewound.recording.progress import Progress
from tests.no_progress import USUAL_DELAY


@pytest.fixture(autouse=True)
def usual_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", USUAL_DELAY)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_work_on_a_terminal_shows_a_bar_and_clears_it() -> None:
    stream, clock = Terminal(), Clock()
    progress = Progress("verify", 1_000_000, stream, clock)
    clock.now = 4.0
    progress(400_000)
    assert stream.getvalue() == (
        "\rverify  ##########--------------  40%  400,000 of 1,000,000  6s left\x1b[K"
    )
    clock.now = 4.05
    progress(410_000)
    assert stream.getvalue().count("\r") == 1
    with progress:
        pass
    assert stream.getvalue().endswith("\r\x1b[K")


def test_work_of_less_than_two_seconds_shows_nothing() -> None:
    for stream in (Terminal(), io.StringIO()):
        clock = Clock()
        with Progress("verify", 10, stream, clock) as progress:
            clock.now = 1.9
            progress(5)
        assert stream.getvalue() == ""


def test_without_a_terminal_there_is_a_plain_line_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress("import", stream=stream, clock=clock)
    for second in range(30):
        clock.now = float(second)
        progress(second * 10, 1000)
    assert stream.getvalue().splitlines() == [
        "rewound: import: 20 of 1,000 (2%), 1m38s left",
        "rewound: import: 120 of 1,000 (12%), 1m28s left",
        "rewound: import: 220 of 1,000 (22%), 1m18s left",
    ]


def test_every_step_has_its_own_remaining_time() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress("recover", stream=stream, clock=clock)
    clock.now = 60.0
    progress.step("recover: write events", 0, 100)
    clock.now = 80.0
    progress.step("recover: write events", 50, 100)
    assert stream.getvalue().splitlines()[-1] == "rewound: recover: write events: 50 of 100 (50%), 20s left"


def test_work_that_does_not_report_is_shown_with_how_long_it_takes() -> None:
    shown = threading.Event()

    class Watched(io.StringIO):
        def flush(self) -> None:
            shown.set()

    stream, clock = Watched(), Clock()
    with Progress("copy", stream=stream, clock=clock):
        clock.now = 65.0
        assert shown.wait(60)
    assert stream.getvalue() == "rewound: copy: 1m05s\n"


def test_work_continues_when_stderr_is_closed() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress("copy", 10, stream, clock)
    stream.close()
    clock.now = 60.0
    progress(5)

from __future__ import annotations

import io

from rewound.gateway.cli.journal.printing import Progress


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
    with Progress("verify", 1_000_000, stream, clock) as progress:
        clock.now = 4.0
        progress(400_000)
        assert stream.getvalue() == (
            "\rverify  ##########--------------  40%  400,000 of 1,000,000  6.0s left\x1b[K"
        )
        clock.now = 4.05
        progress(410_000)
        assert stream.getvalue().count("\r") == 1
    assert stream.getvalue().endswith("\r\x1b[K")


def test_short_work_shows_no_bar() -> None:
    stream, clock = Terminal(), Clock()
    with Progress("verify", 10, stream, clock) as progress:
        clock.now = 0.1
        progress(5)
    assert stream.getvalue() == ""


def test_no_bar_without_a_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress("verify", 10, stream, clock) as progress:
        clock.now = 100.0
        progress(5)
    assert stream.getvalue() == ""


def test_total_of_zero_is_complete() -> None:
    stream, clock = Terminal(), Clock()
    with Progress("verify", 0, stream, clock) as progress:
        clock.now = 1.0
        progress(0)
    assert "100%" in stream.getvalue()

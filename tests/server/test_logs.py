"""The log of a server: JSON lines, and a bound for lines that repeat."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rewound.server.logs import JsonLines, RepeatedLines
from tests.cases import cases
from tests.server.test_flags import refusal, settings


class Lines(logging.Handler):
    """Keeps what it would write; `seconds` is the time of its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.seconds = 0.0
        self.limit = RepeatedLines(self, lambda: self.seconds)
        self.addFilter(self.limit)

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(f"{record.levelname} {record.getMessage()}")


@contextmanager
def logged() -> Iterator[tuple[logging.Logger, Lines]]:
    logger, lines = logging.getLogger("test.lines"), Lines()
    logger.addHandler(lines)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield logger, lines
    finally:
        logger.removeHandler(lines)


def test_a_text_is_written_five_times_a_minute_and_the_rest_is_counted() -> None:
    with logged() as (logger, lines):
        for _ in range(100):
            logger.warning("webhook %s failed", "a")
        logger.warning("webhook %s failed", "b")
        assert lines.written == ["WARNING webhook a failed"] * 5 + ["WARNING webhook b failed"]
        lines.written.clear()
        lines.seconds = 61.0
        logger.info("another line")
        assert lines.written == [
            "WARNING 95 more lines like this were left out in the last 61 s: webhook a failed",
            "INFO another line",
        ]
        logger.warning("webhook %s failed", "a")
        assert lines.written[2:] == ["WARNING webhook a failed"]


def test_one_call_of_the_logger_writes_twenty_lines_a_minute() -> None:
    with logged() as (logger, lines):
        for number in range(50):
            logger.info("the handshake with %d failed", number)
            logger.debug("a line of somebody who looks for something")
        assert sum(line.startswith("INFO") for line in lines.written) == 20
        assert sum(line.startswith("DEBUG") for line in lines.written) == 50
        lines.limit.report()  # as at the end of the process
        assert "30 more lines like this were left out in the last 0 s" in lines.written[-1]
        lines.limit.report()
        assert "30 more" not in "".join(lines.written[:-1])


def test_json_lines_have_time_level_logger_message_and_error() -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("rewound.gateway", logging.ERROR, "f", 1, "%s\nfailed", ("é",), info)
    record.created, record.msecs = 1_700_000_000.25, 250.0
    text = JsonLines().format(record)
    line = json.loads(text)
    assert "\n" not in text and "é" in text
    assert (line["time"], line["level"]) == ("2023-11-14T22:13:20.250Z", "error")
    assert (line["logger"], line["message"]) == ("rewound.gateway", "é\nfailed")
    assert line["error"].endswith("ValueError: wrong")


@cases("flag", ["--log-format=xml", "--log-level=loud"])
def test_unknown_formats_and_levels_are_refused(flag: str) -> None:
    assert "is not known; choose one of" in refusal(flag)


def test_two_levels_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("config") / "server.toml"
    file.write_text("loglevel = 'warning'\n")
    assert "and so does --log-level" in refusal(f"--server-config={file}", "--log-level=debug")
    assert settings("--log-level=debug", "--log-format=json").log.log_level == "debug"

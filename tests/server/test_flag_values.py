from __future__ import annotations

import pytest

from rewound.server.flags.values import parse_duration
from tests.cases import cases


@cases(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("500ms", 0.5),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1h0m10s", 3610.0),
        ("7d", 604800.0),
        ("1us", 1e-6),
    ],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@cases("text", ["", "5", "m", "-5m", "5 m", "5m ", "5x", "1h30", "1e3s", "infs", "٥m"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it like"):
        parse_duration(text)


def test_durations_over_a_century_are_refused() -> None:
    with pytest.raises(ValueError, match="more than a century"):
        parse_duration("9" * 400 + "h")

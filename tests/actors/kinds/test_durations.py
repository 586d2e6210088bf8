"""Durations are numbers with units; errors have the texts that clients know."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.values.times import duration_error, duration_seconds
from tests.cases import cases


@cases(
    "text",
    ["0", "-0", "1s", "+1.5h", "1.s", ".5ms", "1h2m3s4ms5us6µs7ns", "-1h30m", "2562047h47m16.854775807s"],
)
def test_valid_durations(text: str) -> None:
    assert duration_error(text) == ""


@cases(
    ("text", "message"),
    [
        ("", 'invalid duration ""'),
        ("-", 'invalid duration "-"'),
        ("s", 'invalid duration "s"'),
        (".s", 'invalid duration ".s"'),
        ("soon", 'invalid duration "soon"'),
        ("1", 'missing unit in duration "1"'),
        ("+1", 'missing unit in duration "+1"'),
        ("1h2", 'missing unit in duration "1h2"'),
        ("1d", 'unknown unit "d" in duration "1d"'),
        ("1 s", 'unknown unit " s" in duration "1 s"'),
        ("1e3s", 'unknown unit "e" in duration "1e3s"'),
        ("1h-2m", 'unknown unit "h-" in duration "1h-2m"'),
        ("1h.s", 'invalid duration "1h.s"'),
        ("2562048h", 'invalid duration "2562048h"'),
        ("2562047h47m16.854775808s", 'invalid duration "2562047h47m16.854775808s"'),
        ("99999999999999999999", 'invalid duration "99999999999999999999"'),
        ("é\t", r'invalid duration "\xc3\xa9\x09"'),
    ],
)
def test_invalid_durations_have_the_error_texts_of_go(text: str, message: str) -> None:
    assert duration_error(text) == f"time: {message}"


@cases(
    ("text", "seconds"),
    [
        ("0", 0),
        ("2s", 2),
        ("-1.5s", -1.5),
        ("1h2m3s", 3723),
        ("100ms", 0.1),
        ("+.5us", 5e-7),
        ("1µs2ns", 1.002e-6),
        ("-2562047h47m16.854775808s", -(2**63) / 1e9),
    ],
)
def test_seconds_of_durations(text: str, seconds: float) -> None:
    assert duration_seconds(text) == pytest.approx(seconds)

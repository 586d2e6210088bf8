"""Warnings that the server sends with a response are printed on standard error."""

from __future__ import annotations

import pytest

from rewound.client.errors import print_warnings


@pytest.mark.parametrize(
    ("header", "printed"),
    [
        ('299 - "old"', "Warning: old\n"),
        ('299 - "say \\"no\\" \\\\ twice"', 'Warning: say "no" \\ twice\n'),
        ('299 - "one", 299 - "two"', "Warning: one\nWarning: two\n"),
        ('299 - "\x1b[31mred"', "Warning:  [31mred\n"),
        ('110 proxy "stale"', ""),
        ("nonsense", ""),
    ],
)
def test_warnings_are_printed_without_control_characters(
    header: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_warnings([header])
    assert capsys.readouterr() == ("", printed)

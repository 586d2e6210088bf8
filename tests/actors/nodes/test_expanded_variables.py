"""References to variables in a container: what they become, and the bound of what they may become."""

from __future__ import annotations

import pytest

from rewound.actors.nodes.references import _expanded, _TooLong
from tests.cases import cases

LONG = 60_000


@cases(
    ("text", "expanded"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$(A", "$(A"),
        ("$(A $$ $(A)", "$(A $$ $(A)"),
        ("$(A) $(A $$", "1 $(A $"),
        ("$()", ""),
        ("$(" * LONG, "$(" * LONG),
        ("$$" * LONG, "$" * LONG),
    ],
)
def test_references_become_values(text: str, expanded: str) -> None:
    assert _expanded(text, {"A": "1", "": ""}) == expanded


def test_variables_that_double_end() -> None:
    environment = {"V": "x"}
    for _ in range(17):
        environment["V"] = _expanded("$(V)$(V)", environment)
    with pytest.raises(_TooLong):
        _expanded("$(V)$(V)", environment)

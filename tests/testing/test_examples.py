"""The examples in docs/testing.md work as they are written."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.fixture.rewound import Rewound

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def blocks() -> Iterator[str]:
    """The indented parts of the page that have tests."""
    lines: list[str] = []
    for line in [*PAGE.read_text().splitlines(), "end"]:
        if line.startswith("    ") or not line:
            lines.append(line)
            continue
        text, lines = textwrap.dedent("\n".join(lines)), []
        if "def test_" in text:
            yield text


def examples_in(block: str) -> Iterator[tuple[str, Any]]:
    space: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), space)
    return ((name, value) for name, value in space.items() if name.startswith("test_"))


EXAMPLES = [
    pytest.param(test, id=name, marks=getattr(test, "pytestmark", []))
    for block in blocks()
    for name, test in examples_in(block)
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: Any, rewound: Rewound) -> None:
    example(rewound)

"""The sentences of docs/guarantees.md, by name. A validator that fails quotes the one that does not hold."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
# **Name.** The sentence, up to the end of its paragraph.
_GUARANTEE = re.compile(r"^\*\*(\w+)\.\*\* (.+(?:\n.+)*)$", re.MULTILINE)


WATCHES = "## Watches\n"  # after this heading the page is about watches, where some names are used again


@cache
def guarantees() -> dict[str, str]:
    return _sentences(PAGE.read_text().partition(WATCHES)[0])


@cache
def watch_guarantees() -> dict[str, str]:
    return _sentences(PAGE.read_text().partition(WATCHES)[2])


def _sentences(text: str) -> dict[str, str]:
    return {name: " ".join(sentence.split()) for name, sentence in _GUARANTEE.findall(text)}


class GuaranteeBroken(AssertionError):
    """Raised when a guarantee does not hold."""

    def __init__(self, name: str, evidence: str) -> None:
        self.name = name
        super().__init__(f"{name}: “{self.sentence()}”\ndoes not hold: {evidence}")

    def sentence(self) -> str:
        return guarantees()[self.name]


class WatchGuaranteeBroken(GuaranteeBroken):
    """Raised when a guarantee of watches does not hold."""

    def sentence(self) -> str:
        return watch_guarantees()[self.name]

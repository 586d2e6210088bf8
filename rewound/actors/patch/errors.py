"""Errors of patches: one class per cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

LONGEST_TEXT: Final = 1000  # a patch may be megabytes long, an error message may not


class Answer(NamedTuple):
    """How Kubernetes refuses a patch: its text, and a code that may blame the server for a mistake of the client."""

    code: int
    text: str


class PatchError(Exception):
    """Base of every error that this package raises on purpose."""

    def __init__(self, text: str, kubernetes: Answer | None = None) -> None:
        super().__init__(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}...")
        self.kubernetes = kubernetes


class MalformedPatch(PatchError):
    """The patch document itself is invalid."""


class PatchDoesNotFit(PatchError):
    """A well-formed patch that cannot be applied to this document: a missing path, a failed test."""

    operation: Mapping[str, Any] = {}  # of a JSON patch: the one that failed, and the document before it
    document: Any = None


class PatchTooLarge(PatchError):
    """The patch has more operations, or copies more bytes, than allowed."""

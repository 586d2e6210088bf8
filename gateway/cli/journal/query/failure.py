"""What a command cannot do: one sentence that says what is wrong and what to do next."""

from __future__ import annotations


class Failure(Exception):
    """Something about the data; exit code 1."""


class UsageError(Exception):
    """Something about the words of the command; exit code 2."""

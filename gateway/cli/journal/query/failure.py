"""Errors of a command: one sentence that says what is wrong and what to do next."""

from __future__ import annotations


class Failure(Exception):
    """Wrong data; exit code 1."""


class UsageError(Exception):
    """Wrong arguments; exit code 2."""

"""Paths of files as objects name them: what is wrong with one, in words."""

from __future__ import annotations

BACKSTEP = "must not contain '..'"


def without_backsteps(path: str) -> list[str]:
    return [BACKSTEP] if ".." in path and ".." in path.split("/") else []


def descending(path: str) -> list[str]:
    """Below wherever it is put: relative, and never upwards."""
    wrong = ["must be a relative path"] if path.startswith("/") else []
    return wrong + without_backsteps(path)


def unreserved(path: str) -> list[str]:
    """Descending, and out of the way of the names that mounted volumes use for themselves."""
    wrong = descending(path)
    if path.startswith("..") and not path.startswith("../"):
        wrong.append("must not start with '..'")
    return wrong

"""Rules of file paths in objects: each check returns a list of error texts."""

from __future__ import annotations

BACKSTEP = "must not contain '..'"


def without_backsteps(path: str) -> list[str]:
    return [BACKSTEP] if ".." in path and ".." in path.split("/") else []


def descending(path: str) -> list[str]:
    """A relative path without ".."."""
    wrong = ["must be a relative path"] if path.startswith("/") else []
    return wrong + without_backsteps(path)


def unreserved(path: str) -> list[str]:
    """A descending path that avoids the names that mounted volumes use internally."""
    wrong = descending(path)
    if path.startswith("..") and not path.startswith("../"):
        wrong.append("must not start with '..'")
    return wrong

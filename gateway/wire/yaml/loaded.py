"""Loaded: what a YAML document contains, and what Go's YAML library would report about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Loaded:
    value: Any
    problems: tuple[str, ...] = ()  # `line 3: key "c" already set in map`, in document order


def merge_problems(problems: tuple[str, ...]) -> list[str]:
    """The problems, with all duplicate keys as one problem, as Go's YAML library reports them."""
    lines = [problem for problem in problems if problem.startswith("line ")]
    if not lines:
        return list(problems)
    return ["yaml: unmarshal errors:\n  " + "\n  ".join(lines), *problems[len(lines) :]]

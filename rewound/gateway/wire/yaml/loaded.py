"""A loaded YAML document, with the problems that Go's YAML library would report; and the error for a refused one."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec


class Loaded(msgspec.Struct, frozen=True):
    value: Any
    problems: tuple[str, ...] = ()  # `line 3: key "c" already set in map`, in document order


def merge_problems(problems: tuple[str, ...]) -> list[str]:
    """The problems, with all duplicate keys merged into one, as Go's YAML library reports them."""
    lines = [problem for problem in problems if problem.startswith("line ")]
    if not lines:
        return list(problems)
    return ["yaml: unmarshal errors:\n  " + "\n  ".join(lines), *problems[len(lines) :]]


class YamlError(ValueError):
    """The body is not valid YAML, or not YAML that is accepted; the text has line and column."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        where = f"line {line}, column {column}: " if line is not None else ""
        self.message = f"error converting YAML to JSON: yaml: {where}{problem}"
        super().__init__(self.message)


def fail_at(event: Any, problem: str) -> NoReturn:
    """Raise YamlError with the position of a parser event."""
    mark = event.start_mark
    if mark is None:
        raise YamlError(problem)
    raise YamlError(problem, mark.line + 1, mark.column + 1)

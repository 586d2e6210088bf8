"""YamlError: the body is not valid YAML, or YAML that is not accepted, with line and column."""

from __future__ import annotations

from typing import Any, NoReturn


class YamlError(ValueError):
    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        where = f"line {line}, column {column}: " if line is not None else ""
        self.message = f"error converting YAML to JSON: yaml: {where}{problem}"
        super().__init__(self.message)


def fail_at(event: Any, problem: str) -> NoReturn:
    """Refuse the document, with the position of a parser event."""
    mark = event.start_mark
    if mark is None:
        raise YamlError(problem)
    raise YamlError(problem, mark.line + 1, mark.column + 1)

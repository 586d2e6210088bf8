"""Regular expressions of schemas: RE2, in linear time, with the syntax and the error texts of Go's regexp.

The library is imported with the first pattern. Patterns of a definition are compiled when its schema is; a pattern
that does not compile is refused with the definition, so that compiled schemas have none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

# Of one compiled pattern: repetitions of repetitions can ask for gigabytes.
_MAX_MEMORY: Final = 8 << 20

# RE2's texts -> those of Go, where they differ.
_TEXTS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition argument": "invalid repeat count",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "invalid UTF-8": "invalid UTF-8",
    "pattern too large - compile failed": "expression nests too deeply",
}


class InvalidPattern(ValueError):
    """Carries the text of Go's regexp for it."""


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, whose `search(text)` is truthy where a part of the text matches."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidPattern(f"error parsing regexp: {_go_text(error, pattern)}") from None


def _go_text(error: Exception, pattern: str) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what, separator, where = text.partition(": ")
    known = _TEXTS.get(what, what)
    if what == "trailing \\" or not separator:
        return f"{known}: ``"
    if known == "invalid or unsupported Perl syntax" and where.startswith("(?<"):
        where = "(?<"
    if where.startswith(("\\p", "\\P")):
        known = "invalid character class range"
    if known.startswith("missing closing") and pattern:
        where = where or pattern
    return f"{known}: `{where}`"

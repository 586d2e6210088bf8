"""Regular expressions of clients, compiled by RE2: linear time, the syntax of Go's regexp, and its error texts.

The library is imported with the first expression. Most expressions need little memory, also when a hostile text makes
many states of them, in which case RE2 goes on more slowly without remembering states; only what does not compile with
little memory gets more.

RE2 holds the interpreter lock while it compiles (but not while it searches): 70 milliseconds for the largest expression
that is allowed, \\pL{100}. Such an expression is compiled in a worker thread, which lets other threads run afterwards.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, AnyStr, Final

LITTLE_MEMORY: Final = 128 * 1024  # bytes, for about 2,000 instructions
_MOST_MEMORY: Final = 2 * 1024 * 1024  # repetitions of repetitions can ask for gigabytes
_SHORT: Final = 500  # characters
_LONGEST_FRAGMENT: Final = 1024  # characters of the expression in an error text

# RE2's texts, and Go's where they differ.
_TEXTS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition argument": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
}
_TOO_LARGE: Final = "pattern too large"
# Newer versions of RE2 know named groups without P, and \C; Go 1.19 does not.
# Nothing is tried twice, so that this takes linear time too.
_UNKNOWN_TO_GO: Final = re.compile(
    r"(?>[^\\\[(]|\\[^C]|\[\^?+\]?+(?>[^\\\]]|\\.)*+\]|\((?!\?<))*+(\(\?<|\\C)", re.DOTALL
)


class InvalidExpression(ValueError):
    """The text is the one of Go's regexp package."""


def compile_re2(source: AnyStr, *, large: bool = True) -> Any:
    """An expression for texts of the same type; unless `large`, one that needs little memory. InvalidExpression."""
    import re2

    text = source.decode(errors="replace") if isinstance(source, bytes) else source
    unknown = _UNKNOWN_TO_GO.match(text)
    if unknown:
        raise _invalid(*_refused(unknown[1]))
    try:
        try:
            return re2.compile(source, _options(re2, LITTLE_MEMORY))
        except re2.error as error:
            if not large or not _said(error).startswith(_TOO_LARGE):
                raise
            return _compile_large(re2, source)
    except re2.error as error:
        raise _translated(_said(error), text) from None


def _compile_large(re2: Any, source: AnyStr) -> Any:
    """In a worker thread, pause for as long as no other task could run: else one expression after the other would
    delay a request at each of its steps."""
    began = time.perf_counter()
    try:
        return re2.compile(source, _options(re2, _MOST_MEMORY))
    finally:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(time.perf_counter() - began)


def may_take_long(source: str) -> bool:
    """Whether RE2 may need more than a millisecond to compile an expression."""
    return len(source) > _SHORT or "{" in source or "\\p" in source or "\\P" in source


def is_large(compiled: Any) -> bool:
    """Whether the expression did not compile with little memory: a search takes microseconds per character then."""
    return bool(compiled.options.max_mem > LITTLE_MEMORY)


def _options(re2: Any, memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    return options


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _refused(found: str) -> tuple[str, str]:
    if found == "\\C":
        return "invalid escape sequence", found
    return "invalid or unsupported Perl syntax", found


def _translated(said: str, source: str) -> InvalidExpression:
    if said.startswith(_TOO_LARGE):
        return _invalid("expression too large", source)
    what, _, where = said.partition(": ")
    text = _TEXTS.get(what, what)
    if text == "invalid or unsupported Perl syntax" and where.startswith("(?<"):
        where = "(?<"
    if where.startswith(("\\p", "\\P")):
        text = "invalid character class range"
    if text.startswith("missing closing"):
        where = where or source
    return _invalid(text, where)


def _invalid(text: str, fragment: str) -> InvalidExpression:
    return InvalidExpression(f"error parsing regexp: {text}: `{fragment[:_LONGEST_FRAGMENT]}`")

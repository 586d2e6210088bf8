r"""Regular expressions of clients, compiled by RE2: linear time, the syntax of Go's regexp, and its error texts.

The library is imported with the first expression. Most expressions need little memory, even if a hostile text
produces many states, in which case RE2 continues more slowly without caching states; only an expression that does not
compile with little memory gets more.

RE2 holds the interpreter lock while it compiles (but not while it searches): 70 milliseconds for the largest
expression that is allowed, \pL{100}. A worker thread compiles such an expression, and lets other threads run
afterwards.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, AnyStr, Final

LITTLE_MEMORY: Final = 128 * 1024  # bytes, for about 2,000 instructions
_MOST_MEMORY: Final = 2 * 1024 * 1024  # nested repetitions can need gigabytes
_SHORT: Final = 500  # characters of an expression
_LONGEST_FRAGMENT: Final = 1024  # characters of an expression in an error text

# RE2's error texts, and Go's where they differ.
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
# Newer versions of RE2 accept named groups without P, and \C; Go 1.19 does not. No backtracking, so that this takes
# linear time too.
_UNKNOWN_TO_GO: Final = re.compile(
    r"(?>[^\\\[(]|\\[^C]|\[\^?+\]?+(?>[^\\\]]|\\.)*+\]|\((?!\?<))*+(\(\?<|\\C)", re.DOTALL
)


# The name of a group, or what may contain something that looks like one. A class that does not end is skipped up to the
# end of the text, and not searched again from each of its characters.
_NAMED_GROUP: Final = re.compile(
    r"\\.|\[\^?+\]?+(?>[^\\\]]|\\.|\\\Z)*+(?:\]|\Z)|\(\?P?<[A-Za-z0-9_]++>", re.DOTALL
)


class InvalidExpression(ValueError):
    """The expression is invalid; the text is that of Go's regexp package."""


def without_names(source: str) -> str:
    """The expression with plain groups instead of named ones, whose names may occur twice and lack the P."""
    return _NAMED_GROUP.sub(lambda found: "(" if found[0].startswith("(") else found[0], source)


def compile_re2(source: AnyStr, *, large: bool = True) -> Any:
    """Compile an expression for texts of the same type, with little memory unless `large`.

    Raises InvalidExpression if it is invalid or too large.
    """
    import re2

    text = source.decode(errors="replace") if isinstance(source, bytes) else source
    unknown = _UNKNOWN_TO_GO.match(text)
    if unknown:
        raise _invalid(*_refused(unknown[1]))
    try:
        try:
            return re2.compile(source, _options(re2, LITTLE_MEMORY))
        except re2.error as error:
            if not large or not _message_of(error).startswith(_TOO_LARGE):
                raise
            return _compile_large(re2, source)
    except re2.error as error:
        raise _translated(_message_of(error), text) from None


def _compile_large(re2: Any, source: AnyStr) -> Any:
    """Compile, and then pause as long as it took, if in a worker thread.

    Otherwise one expression after the other would delay every step of other requests.
    """
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
    """Whether the expression did not compile with little memory: a search then takes microseconds per character."""
    return bool(compiled.options.max_mem > LITTLE_MEMORY)


def _options(re2: Any, memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    return options


def _message_of(error: Exception) -> str:
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

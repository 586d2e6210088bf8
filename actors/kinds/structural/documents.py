"""Parses documents of custom resources: JSON values with Go's two kinds of numbers, and what is doubtful about them.

Numbers are integers of 64 bits where they are written as such, and floating point otherwise, also 1.0; rules see the
difference. orjson parses most documents. The exact parser, ten times slower, reads those in which a field may be
duplicate, an integer needs more than 64 bits, or something is wrong.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from actors.kinds.schema.exact_decoder import Problems
from actors.kinds.schema.json_tree import MAX_DEPTH, TOO_DEEP, Members, NotJson, Number, parse_tree
from actors.quoting import quoted
from actors.time_limit import check_time

_SHORTEST_MEMBER: Final = 4  # "":0
_AS_NINES: Final = bytes.maketrans(b"012345678", b"9" * 9)
_BIG_NUMBER: Final = b"9" * 19
_LONGEST_PATH: Final = 4096


def parse_document(raw: bytes, *, in_steps: bool) -> tuple[Any, tuple[str, ...]]:
    """The value and its duplicate fields. Raises NotJson. `in_steps`: not in one uninterruptible call."""
    if not in_steps:
        try:
            value = orjson.loads(raw)
            if _is_whole(raw, orjson.dumps(value)) and _BIG_NUMBER not in raw.translate(_AS_NINES):
                return value, ()
        except (orjson.JSONDecodeError, TypeError):
            pass  # the exact parser says what is wrong
    problems = Problems()
    return _plain(parse_tree(raw), "", MAX_DEPTH, problems), problems.texts()


def _is_whole(raw: bytes, written: bytes) -> bool:
    """Whether no member was lost: the text would be longer than what was read from it."""
    if len(raw) - len(written) < _SHORTEST_MEMBER:
        return True
    return _length(raw) - _length(written) < _SHORTEST_MEMBER


def _length(text: bytes) -> int:
    return len(text.translate(None, b" \t\r\n"))


def _plain(value: Any, path: str, depth: int, problems: Problems) -> Any:
    if not depth:
        raise NotJson(TOO_DEEP)
    if type(value) is Members:
        check_time()
        found: dict[str, Any] = {}
        for name, member in value:
            here = (f"{path}.{name}" if path else name)[:_LONGEST_PATH]
            if name in found:
                problems.add(f"duplicate field {quoted(here)}")
            found[name] = _plain(member, here, depth - 1, problems)
        return found
    if type(value) is list:
        return [_plain(item, f"{path}[{index}]", depth - 1, problems) for index, item in enumerate(value)]
    return _number(value) if type(value) is Number else value


def _number(text: Number) -> int | float:
    whole = text.whole()
    if whole is not None and -(2**63) <= whole < 2**63:
        return whole
    return float(text.nearest())

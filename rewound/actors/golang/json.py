"""JSON as Go's encoder writes it, for everything that is stored or sent, and how deep documents may nest.

orjson writes it; `journal.escapes` adds the escapes that only Go uses. orjson stops at 254 levels: of deeper
documents the inner levels are written first, and inserted into the text of the outer ones. Every document that
clients can nest is written here: `dumps` for what is stored or sent, `unescaped` for what is only compared, measured
or copied.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

import orjson

from rewound.journal.escapes import escaped

# Levels of a document. Go's decoder stops at 10,000; no known document has hundreds. orjson reads 1,024.
DEEPEST: Final = 600
_AROUND: Final = 30  # levels of the documents that such documents are put into
_AT_ONCE: Final = 200
# Functions over documents call themselves for every level, some through four others. Python's limit counts calls,
# and these need no C stack; those that do (comparing, parsing) take less than a kilobyte of 8 MiB per level. Parsing a
# CEL expression takes ten calls for each of up to 250 brackets, and evaluating it a few more.
_CALLS: Final = 9 * DEEPEST
if sys.getrecursionlimit() < _CALLS:
    sys.setrecursionlimit(_CALLS)


def dumps(value: Any, option: int = 0) -> bytes:
    """Encode a value as JSON; `option` is one of orjson's. Raises TypeError if it nests too deep."""
    return escaped(unescaped(value, option))


def unescaped(value: Any, option: int = 0) -> bytes:
    """Encode a value as JSON without Go's escapes."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        if not isinstance(value, dict | list):
            raise
        return _deep(value, option, DEEPEST + _AROUND)


def is_too_deep(value: Any, written: bytes) -> bool:
    """Whether a document has more than `DEEPEST` levels; `written` is its JSON."""
    if written.count(b"{") + written.count(b"[") <= DEEPEST:
        return False
    level = [value]
    for _ in range(DEEPEST):
        members = [one.values() if type(one) is dict else one for one in level]
        level = [one for many in members for one in many if type(one) is dict or type(one) is list]
        if not level:
            return False
    return True


def _deep(value: Any, option: int, levels: int) -> bytes:
    """Encode a value of up to `levels` levels: first the parts below `_AT_ONCE` levels, then the rest around them.

    Not with orjson.Fragment: orjson 3.13.0 writes the closing brackets after one beyond the end of its buffer.
    """
    from secrets import token_hex  # here, because almost no document is that deep

    mark, texts = token_hex(16), list[bytes]()  # random, so that no client's text contains it

    def cut(value: Any, levels: int, room: int) -> Any:
        if not levels:
            raise TypeError("it nests too deep")
        kind = type(value)
        if kind is not dict and kind is not list:
            return value
        if not room:
            texts.append(_deep(value, option & ~orjson.OPT_INDENT_2, levels))
            return f"{mark}{len(texts) - 1}"
        if kind is dict:
            return {name: cut(member, levels - 1, room - 1) for name, member in value.items()}
        return [cut(item, levels - 1, room - 1) for item in value]

    written = orjson.dumps(cut(value, levels, _AT_ONCE), option=option)
    return re.sub(rb'"%b(\d+)"' % mark.encode(), lambda found: texts[int(found[1])], written)

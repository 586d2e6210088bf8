"""JSON as Go's encoder writes it, for everything that is stored or sent, and how deep documents may nest.

orjson writes it; `journal.escapes` adds the escapes that Go has besides. orjson stops at 254 levels: of deeper ones
the inner levels are written first, and put into the text of the outer ones. Every document that clients can nest is
written here: `dumps` for what is stored or sent, `unescaped` for what is only compared, measured or copied.
"""

from __future__ import annotations

import re
import sys
from secrets import token_hex
from typing import Any, Final

import orjson

from rewound.journal.escapes import escaped

# Levels of a document. Go's decoder stops at 10,000; no real document is known to have hundreds. orjson reads 1,024.
DEEPEST: Final = 600
_AROUND: Final = 30  # levels of what documents are put into
_AT_ONCE: Final = 200
# Functions over documents call themselves for every level, some through three others. Python's limit counts calls, and
# these need no C stack; what does need some (comparing, parsing) takes less than a kilobyte of 8 MiB for a level.
_CALLS: Final = 5 * DEEPEST
if sys.getrecursionlimit() < _CALLS:
    sys.setrecursionlimit(_CALLS)


def dumps(value: Any, option: int = 0) -> bytes:
    """JSON of a value; `option` is one of orjson's. TypeError: it nests too deep."""
    return escaped(unescaped(value, option))


def unescaped(value: Any, option: int = 0) -> bytes:
    """The same without Go's escapes."""
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
    """The text of a value with up to `levels` levels: first of what is below `_AT_ONCE` of them, then of the rest.

    Not with orjson.Fragment: brackets that close behind one are written beyond the end of orjson's buffer (3.13.0).
    """
    mark, texts = token_hex(16), list[bytes]()  # random, so that no text of a client is one

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

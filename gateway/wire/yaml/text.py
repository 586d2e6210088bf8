"""Checks bytes before they are parsed: UTF-8 without control characters, and few directives.

The parser would also accept UTF-16, in which this module could not find directives. It compares each %TAG with all
before it: a hundred thousand of them keep it busy for twenty seconds in one call that nothing can interrupt.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.wire.yaml.failure import YamlError

# No client needs any, because custom tags are refused.
MAX_TAG_DIRECTIVES: Final = 16

_directive = re.compile("(?:^|[\r\n\x85\u2028\u2029])%TAG")
_forbidden = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").search


def check(raw: bytes) -> None:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError("invalid UTF-8", *_position(raw[: error.start].decode())) from None
    bad = _forbidden(text)
    if bad:
        position = _position(text[: bad.start()])
        raise YamlError(f"control characters are not allowed (U+{ord(bad[0]):04X})", *position)
    if text.count("%TAG") > MAX_TAG_DIRECTIVES and len(_directive.findall(text)) > MAX_TAG_DIRECTIVES:
        raise YamlError(f"more than {MAX_TAG_DIRECTIVES} %TAG directives")


def _position(before: str) -> tuple[int, int]:
    """Line and column, counted from 1, at the end of a text."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")

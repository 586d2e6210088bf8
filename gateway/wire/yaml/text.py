"""Which bytes come to the parser at all: UTF-8 without control characters, and few directives.

The parser would also take UTF-16, under which nothing here could look for directives. It compares each %TAG
with all before it: a hundred thousand of them keep it busy for twenty seconds in one call that nothing can
interrupt.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.wire.yaml.failure import YamlError

# Nobody needs one, since no tags of one's own are read.
TAG_DIRECTIVES: Final = 16

_directive = re.compile("(?:^|[\r\n\x85\u2028\u2029])%TAG")
_forbidden = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").search


def check(raw: bytes) -> None:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError("invalid UTF-8", *_place(raw[: error.start].decode())) from None
    bad = _forbidden(text)
    if bad:
        place = _place(text[: bad.start()])
        raise YamlError(f"control characters are not allowed (U+{ord(bad[0]):04X})", *place)
    if text.count("%TAG") > TAG_DIRECTIVES and len(_directive.findall(text)) > TAG_DIRECTIVES:
        raise YamlError(f"more than {TAG_DIRECTIVES} %TAG directives")


def _place(before: str) -> tuple[int, int]:
    """Line and column, from one, of what follows a text."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")

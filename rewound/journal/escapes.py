r"""The characters that are escaped in the JSON of objects: `<`, `>`, `&`, U+2028, U+2029, backspace and form feed.

Go's encoder escapes them, and clients rely on it: some take U+2028 for the end of a line, and so for the end of a
watch event. Objects are encoded this way; `records` converts those that earlier releases stored. In JSON the first
five occur only inside strings, so their bytes can be replaced without parsing.
"""

from __future__ import annotations

import re
from typing import Final

_SHORT_ESCAPES: Final = re.compile(rb"\\(.)", re.DOTALL)
# One search takes a third of the time of two `find` calls; most Pods have a backslash, in the keys of their
# managedFields.
_SHORT_ESCAPE: Final = re.compile(rb"\\[bf]")
_LONG_ESCAPES: Final = {b"b": b"\\u0008", b"f": b"\\u000c"}


def escaped(text: bytes) -> bytes:
    """The same JSON with these characters escaped; the same object if it has none, after 0.4 us per kB."""
    # `find` is one memchr; `in` raises and catches an exception first.
    if text.isascii() and text.find(b"<") < 0 and text.find(b">") < 0 and text.find(b"&") < 0:
        return text if text.find(b"\\") < 0 else _with_long_escapes(text)
    text = text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return _with_long_escapes(text)


def _with_long_escapes(text: bytes) -> bytes:
    """Replace the short escapes of backspace and form feed by long ones, except after an escaped backslash."""
    if _SHORT_ESCAPE.search(text) is None:
        return text
    return _SHORT_ESCAPES.sub(lambda found: _LONG_ESCAPES.get(found[1], found[0]), text)

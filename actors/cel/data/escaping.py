"""Names of properties as CEL identifiers: a.b is a__dot__b, `in` is __in__."""

from __future__ import annotations

import re
from typing import Final

from actors.cel.limits import RESERVED

_SPECIAL: Final = re.compile(r"__|[-./]")
_ESCAPED: Final = re.compile(r"__[^_]+__")
_VALID: Final = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_WORDS: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_CHARACTERS: Final = {word: character for character, word in _WORDS.items()}


def escape(name: str) -> str | None:
    """None for a name that no identifier can mean."""
    if not _VALID.fullmatch(name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return _SPECIAL.sub(lambda found: _WORDS[found[0]], name)


def unescape(identifier: str) -> str | None:
    """None for an identifier with an invalid escape sequence."""
    parts: list[str] = []
    position = 0
    for found in _ESCAPED.finditer(identifier):
        word = found[0]
        plain = _CHARACTERS.get(word)
        if plain is None:
            if word[2:-2] not in RESERVED or len(word) != len(identifier):
                return None
            plain = word[2:-2]
        parts += identifier[position : found.start()], plain
        position = found.end()
    return "".join(parts) + identifier[position:] if parts else identifier

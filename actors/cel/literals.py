"""The values of literals. Each function returns None for a literal that has the form but no value (too large ...)."""

from __future__ import annotations

import math
import re
from typing import Final

from actors.cel.values import Uint

_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE: Final = re.compile(r"\\(?:[xX](..)|u(....)|U(........)|([0-3][0-7][0-7])|(.))", re.DOTALL)
_LINE_ENDS: Final = re.compile(r"\r\n?")


def int_of(text: str, sign: str = "") -> int | None:
    value = int(sign + text[2:], 16) if text.startswith("0x") else _decimal(sign + text)
    return value if value is not None and -(2**63) <= value < 2**63 else None


def uint_of(text: str) -> Uint | None:
    text = text[:-1]
    value = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
    return Uint(value) if value is not None and value < 2**64 else None


def _decimal(text: str) -> int | None:
    """None for more digits than any number of 64 bits needs: converting long decimals takes quadratic time."""
    digits = text.lstrip("-").lstrip("0")
    return int(text) if len(digits) <= 20 else None


def double_of(text: str, sign: str = "") -> float | None:
    value = float(sign + text)
    return value if math.isfinite(value) else None


def string_of(text: str) -> str | None:
    raw, body = _body(text)
    if raw or "\\" not in body:
        return body
    try:
        return _ESCAPE.sub(_character, body)
    except (ValueError, OverflowError):
        return None


def bytes_of(text: str) -> bytes | None:
    raw, body = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[end : found.start()].encode())
        short, unicode, long, octal, character = found.groups()
        if unicode or long:
            return None
        parts.append(
            bytes([int(short, 16) if short else int(octal, 8)])
            if short or octal
            else _ESCAPES[character].encode()
        )
        end = found.end()
    parts.append(body[end:].encode())
    return b"".join(parts)


def _body(text: str) -> tuple[bool, str]:
    """Whether a string literal is raw, and what stands between its quotes."""
    text = _LINE_ENDS.sub("\n", text)
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    return raw, text[quotes:-quotes]


def _character(found: re.Match[str]) -> str:
    short, unicode, long, octal, character = found.groups()
    if character:
        return _ESCAPES[character]
    code = int(octal, 8) if octal else int(short or unicode or long, 16)
    return "�" if 0xD800 <= code <= 0xDFFF else chr(code)

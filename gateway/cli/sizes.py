"""Parses amounts of memory in the notation of Kubernetes: 512Mi, 1Gi, 2G, or bytes."""

from __future__ import annotations

import re

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([kMGT]|[KMGT]i)?", re.ASCII)


def size(text: str) -> int:
    """Bytes; ValueError says what is wrong."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory; write it like 512Mi, 1Gi or 2G")
    number, unit = match.groups()
    return int(float(number) * _UNITS[unit or ""])

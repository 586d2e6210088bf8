"""The values of CEL that Python has no type for."""

from __future__ import annotations


class Uint(int):
    """An unsigned integer of 64 bits, which CEL tells from an int."""

    __slots__ = ()

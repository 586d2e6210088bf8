"""Where a value of an expression comes from: a variable, then field names, @items, @keys and @values.

cel-go keeps these paths in Go slices that share their memory: appending to one path can overwrite the last part of
another that was made from the same one before, and the estimate then uses the size of the other field. That happens
where a macro's variable stands for items of a list that is nested five or six parts deep:
`self.a.b.c.d.all(x, x.e == x.f)` takes x.e for x.f. Definitions are accepted or refused by that, so a path here is such
a slice: parts with a capacity that doubles.
"""

from __future__ import annotations


class Path:
    __slots__ = ("_capacity", "_length", "_parts")

    def __init__(self, parts: list[str], length: int, capacity: int) -> None:
        self._parts = parts
        self._length = length
        self._capacity = capacity

    @staticmethod
    def of(variable: str) -> Path:
        return Path([variable], 1, 1)

    def plus(self, part: str) -> Path:
        length = self._length + 1
        if length > self._capacity:
            return Path([*self.parts(), part], length, max(2 * self._capacity, 1))
        if self._length < len(self._parts):
            self._parts[self._length] = part
        else:
            self._parts.append(part)
        return Path(self._parts, length, self._capacity)

    def copy_plus(self, part: str) -> Path:
        """A longer path that shares nothing with this one."""
        return Path([*self.parts(), part], self._length + 1, self._length + 1)

    def parts(self) -> list[str]:
        return self._parts[: self._length]


def no_path() -> Path:
    return Path([], 0, 0)

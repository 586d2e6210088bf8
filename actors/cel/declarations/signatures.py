"""Reads function declarations from the form they are written down in: one overload a line.

    <function> <overload id> (<parameters>) <result>
    <function> <overload id> <receiver>.(<parameters>) <result>

A, B are type parameters; `url` is the type of URLs, whose name depends on the dialect. The order of lines is the
order in which the checker tries the overloads of a function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from actors.cel.types import BYTES, DURATION, TIMESTAMP, Type, TypeParameter

_LINE: Final = re.compile(r"(\S+) (\S+) (?:(\S.*)\.)?\((.*)\) (\S.*)")
_TOKEN: Final = re.compile(r"[A-Za-z]+|[(),]")
_NAMED: Final = {type_.name: type_ for type_ in (BYTES, DURATION, TIMESTAMP)}


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. `parameters` begin with the receiver if it is a method."""

    id: str
    function: str
    parameters: tuple[Type, ...]
    result: Type
    method: bool
    type_parameters: tuple[str, ...]


def read(text: str, url_type: str) -> list[Overload]:
    types = {**_NAMED, "url": Type(url_type)}
    return [_read_line(line, types) for line in text.strip().split("\n")]


def _read_line(line: str, named: dict[str, Type]) -> Overload:
    found = _LINE.fullmatch(line)
    assert found is not None, line
    function, identifier, receiver, parameters, result = found.groups()
    given = f"{receiver}, {parameters}" if receiver and parameters else receiver or parameters
    types = tuple(_read_types(given, named))
    names = tuple(name for name in ("A", "B") if re.search(rf"\b{name}\b", line.split(" ", 2)[2]))
    return Overload(identifier, function, types, _read_types(result, named)[0], receiver is not None, names)


def _read_types(text: str, named: dict[str, Type]) -> list[Type]:
    """Types separated by commas."""
    found: list[list[Type]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            found.append([])
        elif token == ")":
            parameters = found.pop()
            found[-1][-1] = Type(found[-1][-1].name, tuple(parameters))
        elif token != ",":
            found[-1].append(_simple(token, named))
    return found[0]


def _simple(name: str, named: dict[str, Type]) -> Type:
    return TypeParameter(name) if name in ("A", "B") else named.get(name) or Type(name)

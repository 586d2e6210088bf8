"""`'%s is %d'.format([a, b])`: cel-go's string.format in its second version, which prints numbers as in American
English: 1,234.500000, and 1.234500 × 10⁰³.

A format that is a constant, with a list literal of arguments, is also checked when the expression is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from rewound.actors.cel.operations import to_string
from rewound.actors.cel.syntax import Constant, ListLiteral, MapLiteral, Node
from rewound.actors.cel.types import Type
from rewound.actors.cel.values import (
    Duration,
    EvaluationError,
    MapLike,
    Timestamp,
    TypeValue,
    Uint,
    is_list,
    list_get,
    list_size,
    parse_double,
    type_name,
    walked,
)
from rewound.actors.golang.quoting import quoted
from rewound.actors.runtime.budget import Budget

# Prints a value with a precision.
PrintClause = Callable[[Any, int, Budget], str]

_CHARACTER: Final = 4  # bytes
_PRECISION: Final = 6
_MOST_PRECISION: Final = 1000
_SPECIAL: Final = ("NaN", "Infinity", "-Infinity")
_TEXT: Final = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
# What a clause cannot format, by its letter, and the names of the types that it can.
_REFUSALS: Final = {
    "s": f"string clause can only be used on {_TEXT}",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_ACCEPTED: Final = {
    "s": (
        *("list", "map", "int", "uint", "double", "bool", "string", "bytes", "type", "null"),
        *("timestamp", "duration"),
    ),
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
}


class Clause(NamedTuple):
    letter: str
    precision: int


class FormatError(Exception):
    pass


def _pieces(written: str) -> Iterator[str | Clause]:
    """Yield the texts and the clauses of a format. Raises FormatError after the last one that can be read."""
    position = 0
    while position < len(written):
        at = written.find("%", position)
        if at < 0:
            yield written[position:]
            return
        if at > position:
            yield written[position:at]
        if written.startswith("%%", at):
            yield "%"
            position = at + 2
            continue
        clause, position = _clause(written, at + 1)
        yield clause


def _clause(written: str, at: int) -> tuple[Clause, int]:
    if at >= len(written):
        return Clause("", 0), at
    precision, broken = _PRECISION, ""
    if written[at] == ".":
        end = at + 1
        while end < len(written) and written[end] in "0123456789":
            end += 1
        digits = written[at + 1 : end]
        if end >= len(written):
            broken = "could not find end of precision specifier"
        elif not digits:
            broken = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
        elif int(digits) >= 2**63:
            broken = (
                f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": '
                "value out of range"
            )
        if broken:
            return Clause(
                f"could not parse formatting clause: error while parsing precision: {broken}", 0
            ), at
        precision, at = int(digits), end
    letter = written[at]
    if letter.lower() != "x" and letter not in _REFUSALS:
        first = letter.encode()[:1].decode("latin-1")
        return Clause(f'could not parse formatting clause: unrecognized formatting clause "{first}"', 0), at
    return Clause(letter, precision), at + 1


def format_text(budget: Budget, written: str, arguments: Any) -> str:
    found: list[str] = []
    index = 0
    for piece in _pieces(written):
        if isinstance(piece, str):
            found.append(piece)
            continue
        if index >= list_size(arguments):
            raise EvaluationError(f"index {index} out of range")
        value = list_get(arguments, index)
        if not piece.letter:
            raise EvaluationError("unexpected end of string")
        if len(piece.letter) > 1:
            raise EvaluationError(piece.letter)
        try:
            text = _CLAUSES[piece.letter](value, min(piece.precision, _MOST_PRECISION), budget)
        except FormatError as error:
            raise EvaluationError(f"error during formatting: {error}") from None
        budget.take(_CHARACTER * len(text))
        found.append(text)
        index += 1
    return "".join(found)


def check_format(
    node: Node, written: str, arguments: ListLiteral, types: dict[int, Type]
) -> tuple[Node, str] | None:
    """Return what is wrong with a constant format and its arguments, and the node to blame."""
    index = 0
    for piece in _pieces(written):
        if isinstance(piece, str):
            continue
        if not piece.letter:
            return node, "unexpected end of string"
        if index >= len(arguments.items):
            return node, f"index {index} out of range"
        if len(piece.letter) > 1:
            return node, piece.letter
        letter = piece.letter.lower() if piece.letter == "X" else piece.letter
        argument = arguments.items[index]
        wrong = _wrong_text(argument, types) if letter == "s" else _wrong(letter, argument, types)
        if wrong is not None:
            name = _NAMES.get(types[wrong.id].name, types[wrong.id].name)
            return wrong, f"error during formatting: {_REFUSALS[letter]}, was given {name}"
        index += 1
    if len(arguments.items) > index:
        text = f"expected {index}, got {len(arguments.items)}"
        return node, f"too many arguments supplied to string.format ({text})"
    return None


# The names of types that differ from those in `types`.
_NAMES: Final = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}


def _wrong(letter: str, argument: Node, types: dict[int, Type]) -> Node | None:
    name = types[argument.id].name
    return None if name in ("dyn", "any") or name in _ACCEPTED[letter] else argument


def _wrong_text(argument: Node, types: dict[int, Type]) -> Node | None:
    wrong = _wrong("s", argument, types)
    if wrong is not None:
        return wrong
    inner: list[Node] = []
    if isinstance(argument, ListLiteral):
        inner = list(argument.items)
    elif isinstance(argument, MapLiteral):
        inner = [part for entry in argument.entries for part in entry]
    for part in inner:
        wrong = _wrong_text(part, types)
        if wrong is not None:
            return wrong
    return None


def is_checked(target: Node | None, arguments: tuple[Node, ...]) -> bool:
    """Whether a call of format has a constant format and a list literal."""
    if not isinstance(target, Constant) or target.value.__class__ is not str or len(arguments) != 1:
        return False
    return isinstance(arguments[0], ListLiteral)


def _refused(letter: str, value: Any) -> FormatError:
    return FormatError(f"{_REFUSALS[letter]}, was given {type_name(value)}")


def _text(value: Any, _: int, budget: Budget) -> str:
    if is_list(value):
        return _list(value, budget)
    if isinstance(value, MapLike):
        return _map(value, budget)
    if value is None:
        return "null"
    if value.__class__ is TypeValue:
        return str(value.name)
    if value.__class__ in (int, Uint, float, bool, str, Timestamp, bytes, Duration):
        try:
            return to_string(value)
        except EvaluationError as error:
            raise FormatError(f"could not convert argument {quoted(error.message)} to string") from None
    raise _refused("s", value)


def _list(values: Any, budget: Budget) -> str:
    return f"[{', '.join([_member(item, budget) for item in walked(values, budget)])}]"


def _map(value: MapLike, budget: Budget) -> str:
    entries = []
    budget.visit(value.size())
    for key in list(value.keys()):
        if key.__class__ not in (str, bool, int, Uint):
            raise FormatError(f"no formatting function for map key of type {type_name(key)}")
        entries.append((_member(key, budget), _member(value.get(key), budget)))
    entries.sort(key=lambda entry: entry[0].encode())
    return "{" + ", ".join(f"{key}:{written}" for key, written in entries) + "}"


def _member(value: Any, budget: Budget) -> str:
    """Print a value in a list or map, as a literal."""
    text = _literal(value, budget)
    budget.take(_CHARACTER * len(text))
    return text


def _literal(value: Any, budget: Budget) -> str:
    if value.__class__ is str:
        return quoted(value)
    if value.__class__ is bytes:
        return f"b{quoted(_text(value, 0, budget))}"
    if value.__class__ is Timestamp:
        return f"timestamp({quoted(to_string(value))})"
    if value.__class__ is Duration:
        return f"duration({quoted(to_string(value))})"
    if value.__class__ is float:
        if math.isnan(value) or math.isinf(value):
            return quoted("NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf")
        return f"{value:.6f}"
    if (
        is_list(value)
        or isinstance(value, MapLike)
        or value.__class__ in (int, Uint, bool, type(None), TypeValue)
    ):
        return _text(value, 0, budget)
    raise FormatError(f"no formatting function for {type_name(value)}")


def _decimal(value: Any, _: int, __: Budget) -> str:
    if value.__class__ not in (int, Uint):
        raise _refused("d", value)
    return str(int(value))


def _number(letter: str, value: Any) -> float:
    if value.__class__ is str and value in _SPECIAL:
        return float(parse_double(value) or 0)
    if value.__class__ is not float:
        raise _refused(letter, value)
    return float(value)


def _fixed(value: Any, precision: int, _: Budget) -> str:
    number = _number("f", value)
    return _special(number) or f"{number:,.{precision}f}"


def _scientific(value: Any, precision: int, _: Budget) -> str:
    """Print 1.234500 × 10⁰³. The precision is only the width, as in cel-go."""
    number = _number("e", value)
    special = _special(number)
    if special:
        return special
    digits, exponent = f"{number:.6e}".split("e")
    sign = "⁻" if exponent[0] == "-" else ""
    return f"{digits}\u00a0×\u00a010{sign}{exponent[1:].translate(_RAISED)}".rjust(precision)


_RAISED: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return ("∞" if number > 0 else "-∞") if math.isinf(number) else ""


def _binary(value: Any, _: int, __: Budget) -> str:
    if value.__class__ is bool:
        return "1" if value else "0"
    if value.__class__ not in (int, Uint):
        raise _refused("b", value)
    return f"{int(value):b}"


def _hex(letter: str) -> PrintClause:
    def run(value: Any, _: int, __: Budget) -> str:
        if value.__class__ is str or value.__class__ is bytes:
            data = value if isinstance(value, bytes) else value.encode(errors="surrogatepass")
            found = data.hex()
            return found.upper() if letter == "X" else str(found)
        if value.__class__ not in (int, Uint):
            raise _refused("x", value)
        return f"{int(value):{letter}}"

    return run


def _octal(value: Any, _: int, __: Budget) -> str:
    if value.__class__ not in (int, Uint):
        raise _refused("o", value)
    return f"{int(value):o}"


_CLAUSES: Final[dict[str, PrintClause]] = {
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex("x"),
    "X": _hex("X"),
    "o": _octal,
}

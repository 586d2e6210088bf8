"""The hash of a pod template that is in the names of ReplicaSets and in the label pod-template-hash.

Kubernetes prints the Go value of a template with the name and type of each field, even if not set, and takes the FNV-1a
hash of that text. Hashes must be equal, so that objects created by another controller manager keep their names. So this
module writes the same text from the stored JSON:

    (v1.PodTemplateSpec){ObjectMeta:(v1.ObjectMeta){Name:(string) GenerateName:(string) ...} Spec:(v1.PodSpec){...}}

template_types.txt has a line for each struct, below it a line for each field: its name in Go, its name in JSON (- for
the fields of an embedded struct), its type, and unless all versions have it, the first and the last version with it. So
versions have different hashes for the same template. A type without a line is a kind of string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from rewound.actors.quantity import LARGEST_BINARY, NANOS, nanos_of, parts_of
from rewound.actors.runtime.steps import Steps
from rewound.actors.runtime.write_context import LETTERS
from rewound.actors.versions.features import V1_25, Release
from rewound.actors.versions.version import exists_in

# Writes a value of JSON, None if it is not set, as the text of its Go value without its type.
Writer = Callable[[Any], str]
Field = tuple[str, str, str]

_FILE: Final = Path(__file__).with_name("template_types.txt")
_FNV_START, _FNV_PRIME, _32_BITS = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_PART: Final = 4096  # bytes, at a tenth of a microsecond each


def template_hash(
    template: Mapping[str, Any], collisions: int | None = None, release: Release = V1_25
) -> Steps[str]:
    """`collisions` is status.collisionCount of the owner: with another one, the same template has another hash."""
    data = f"(v1.PodTemplateSpec){go_text(template, release)}".encode()
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe_text((yield from fnv32a(data)))


def go_text(template: Mapping[str, Any], release: Release = V1_25) -> str:
    return _writer("v1.PodTemplateSpec", release.version)(template)


def fnv32a(data: bytes) -> Steps[int]:
    found = _FNV_START
    for start in range(0, len(data), _PART):
        for byte in data[start : start + _PART]:
            found = (found ^ byte) * _FNV_PRIME & _32_BITS
        yield
    return found


def safe_text(number: int) -> str:
    """The digits of a number as letters without vowels, so that no hash is a word."""
    return "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in str(number))


@cache
def _types(version: str) -> dict[str, str | list[Field]]:
    found: dict[str, str | list[Field]] = {}
    fields: list[Field] = []
    for line in _FILE.read_text().splitlines():
        words = line.split()
        if line.startswith(" "):
            since, until = [*words[3:], "", ""][:2]
            if exists_in(version, since, until):
                fields.append((words[0], words[1], words[2]))
        elif len(words) == 2:
            found[words[0]] = words[1]
        else:
            found[words[0]] = fields = []
    return found


@cache
def _writer(type_: str, version: str) -> Writer:
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    if type_.startswith("*"):
        return _pointer(type_, version)
    if type_.startswith("[]"):
        return _list(type_, version)
    if type_.startswith("map["):
        return _map(type_, version)
    declared = _types(version).get(type_, "string")
    return _writer(declared, version) if isinstance(declared, str) else _struct(declared, version)


def _struct(fields: list[Field], version: str) -> Writer:
    writers: list[tuple[str, str, Writer]] = []

    def write(value: Any) -> str:
        if not writers:  # not earlier: types contain themselves
            for go_name, name, type_ in fields:
                # The type of a pointer precedes its target.
                shown = go_name + ":" if type_.startswith("*") else f"{go_name}:({type_})"
                writers.append((shown, name, _writer(type_, version)))
        given = value or {}
        parts = [shown + inner(given if name == "-" else given.get(name)) for shown, name, inner in writers]
        return "{" + " ".join(parts) + "}"

    return write


def _pointer(type_: str, version: str) -> Writer:
    def write(value: Any) -> str:
        return f"({type_})<nil>" if value is None else f"({type_})" + _writer(type_[1:], version)(value)

    return write


def _list(type_: str, version: str) -> Writer:
    def write(value: Any) -> str:
        if value is None:
            return "<nil>"
        item = _writer(type_[2:], version)
        return "[" + " ".join([item(one) for one in value]) + "]"

    return write


def _map(type_: str, version: str) -> Writer:
    inner = type_[type_.index("]") + 1 :]

    def write(value: Any) -> str:
        if value is None:
            return "<nil>"
        item = _writer(inner, version)
        # Go sorts strings by their bytes.
        ordered = sorted(value.items(), key=lambda each: str(each[0]).encode())
        return "map[" + " ".join([f"{key}:{item(one)}" for key, one in ordered]) + "]"

    return write


def _time(_: object) -> str:
    """Templates have no times; those that clients send are not stored."""
    return "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"


def _int_or_string(value: Any) -> str:
    number, text = (0, value) if isinstance(value, str) else (value or 0, "")
    return f"{{Type:(intstr.Type){int(isinstance(value, str))} IntVal:(int32){number} StrVal:(string){text}}}"


_FORMATS: Final = {"binary": "BinarySI", "decimal": "DecimalSI", "exponent": "DecimalExponent"}


def _quantity(value: Any) -> str:
    """The parts as Go's parser leaves them: a number of 64 bits and a power of ten, or a number of any size."""
    if value is None:
        return _quantity_text(0, 0, "", "")
    text = str(value)
    if text == "0":
        return _quantity_text(0, 0, "0", "DecimalSI")
    is_negative, number, scale, style, is_fast, is_kept = parts_of(text)
    if is_fast:
        kept = text if is_kept else ""
        return _quantity_text(-number if is_negative else number, scale, kept, _FORMATS[style])
    unscaled, power = abs(nanos_of(text)), 9
    if style == "binary" and 0 < unscaled < NANOS:
        style = "decimal"
    if style == "binary" and unscaled == LARGEST_BINARY:
        unscaled, power = LARGEST_BINARY // NANOS, 0
    if not number:
        unscaled, power = 0, -scale
    large = _decimal_text(unscaled, power, negative=is_negative and number > 0)
    return _quantity_text(0, 0, "", _FORMATS[style], large)


def _decimal_text(number: int, scale: int, *, negative: bool) -> str:
    words = []
    while number:
        words.append(str(number & 2**64 - 1))
        number >>= 64
    listed = f"[{' '.join(words)}]"
    return (
        f"(*inf.Dec){{unscaled:(big.Int){{neg:(bool){str(negative).lower()} abs:(big.nat){listed}}} "
        f"scale:(inf.Scale){scale}}}"
    )


def _quantity_text(number: int, scale: int, text: str, format_: str, large: str = "(*inf.Dec)<nil>") -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:{large}}} s:(string){text} Format:(resource.Format){format_}}}"
    )


_SIMPLE: Final[dict[str, Writer]] = {
    "string": lambda value: value or "",
    "bool": lambda value: "true" if value else "false",
    "int32": lambda value: str(value or 0),
    "int64": lambda value: str(value or 0),
    "v1.Time": _time,
    "intstr.IntOrString": _int_or_string,
    "resource.Quantity": _quantity,
}

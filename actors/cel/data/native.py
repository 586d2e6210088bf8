"""Values of objects as Go has them: which type a message names, which values are the same key of a Go map."""

from __future__ import annotations

from typing import Any, Final

from actors.cel.values import MAX_INT, MIN_INT, Duration, EvaluationStopped, Timestamp, Uint

_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    float: "float64",
    int: "int64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    Uint: "uint64",
    bytes: "[]uint8",
    Duration: "time.Duration",
    Timestamp: "time.Time",
}
_NOT_KEYS: Final[tuple[type, ...]] = (dict, list, bytes)


class NullNative:
    """null that an expression added to a list: not the null of JSON."""

    go_name: Final = "structpb.NullValue"


NULL: Final = NullNative()


class Foreign:
    """A list or map of the expression in a list of the object, which no schema can read."""

    __slots__ = ("go_name",)

    def __init__(self, go_name: str) -> None:
        self.go_name = go_name


def go_type(raw: Any) -> str:
    if raw.__class__ is int and not MIN_INT <= raw <= MAX_INT:
        return "float64"
    name = _NAMES.get(raw.__class__)
    return name if name is not None else str(getattr(raw, "go_name", raw.__class__.__name__))


def native(value: Any) -> Any:
    """What a CEL value is in a list of the object after it was added there."""
    if value is None:
        return NULL
    if value.__class__ is list:
        return Foreign("[]ref.Val")
    return value.native() if hasattr(value, "native") else value


def go_key(raw: Any) -> Any:
    """A key that equals another one exactly if Go says so: 1 and 1.0 differ, and so do a text and a time."""
    if isinstance(raw, _NOT_KEYS):
        raise EvaluationStopped(f"internal error: runtime error: hash of unhashable type {go_type(raw)}")
    return raw if raw.__class__ is str else (raw.__class__, raw)

"""Validates a value against a schema exactly as v1.25 does: every finding, in its order, with its text.

It runs only after `validity` has found that something is wrong, and defines what wrong means. Each keyword counts a
match when it passes; of the branches of anyOf and oneOf the findings of the one with the most matches are reported.
Members of maps have no order in v1.25; here they have that of the object.
"""

from __future__ import annotations

from typing import Any, Final

from actors.kinds.structural.node import Node
from actors.kinds.structural.patterns import compile_pattern
from actors.kinds.structural.validation.findings import (
    ENUM,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    Finding,
    Findings,
    composite,
    number_text,
    other,
    wrong_type,
)
from actors.kinds.structural.validation.formats import format_check
from actors.quoting import quoted_start
from actors.time_limit import check_time

_NAMES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_LARGEST_INTEGER: Final = float(2**53 - 1)  # that a float can hold and JSON can carry
_LONGEST_PATH: Final = 4096


def type_name(value: Any) -> str:
    return "null" if value is None else _NAMES[type(value)]


def types_of(node: Node) -> tuple[str, ...]:
    if node.int_or_string:
        return ("integer", "string")
    return (node.type,) if node.type else ()


def is_whole(value: float) -> bool:
    """Whether a floating-point number counts as an integer: almost equal to one is enough."""
    if not -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
        return False
    nearest = float(int(value))
    if value == nearest:
        return True
    return bool(nearest) and abs(value - nearest) / (abs(value) + abs(nearest)) < 1e-9


def same_value(one: Any, allowed: Any) -> bool:
    """Whether a value equals one of an enum. Numbers are compared as numbers, true is not 1."""
    if isinstance(one, bool) or isinstance(allowed, bool):
        return type(one) is type(allowed) and bool(one == allowed)
    if isinstance(one, (int, float)) and isinstance(allowed, (int, float)):
        return one == allowed or (type(allowed) is int and type(one) is float and int(one) == allowed)
    if type(one) is not type(allowed) or one is None:
        return False
    if isinstance(one, list):
        return len(one) == len(allowed) and all(map(_identical, one, allowed))
    if isinstance(one, dict):
        return one.keys() == allowed.keys() and all(_identical(one[name], allowed[name]) for name in one)
    return bool(one == allowed)


def _identical(one: Any, allowed: Any) -> bool:
    return (one is None and allowed is None) or (type(one) is type(allowed) and same_value(one, allowed))


def validate(node: Node, value: Any, path: str = "") -> Findings:
    check_time()
    path = path[:_LONGEST_PATH]
    found = Findings()
    if value is None:
        found.merge(_type(node, value, path))
        found.merge(_enum(node, value, path))
        return found
    steps = [_junctors(node, value, path)]
    if node.type or node.int_or_string or format_check(node.format):
        steps.insert(0, _type(node, value, path))
    if type(value) is str:
        steps.append(_string(node, value, path))
        check = format_check(node.format)
        if check is not None:
            wrong = not check(value)
            steps.append(Findings(wrong_type(path, node.format, value)) if wrong else Findings())
    elif type(value) in (int, float):
        steps.append(_number(node, value, path))
    elif type(value) is list:
        steps.append(_list(node, value, path))
    steps.append(_enum(node, value, path))
    if type(value) is dict:
        steps.append(_object(node, value, path))
    for step in steps:
        found.merge(step)
        found.matches += 1
    found.matches += 1
    return found


def _type(node: Node, value: Any, path: str) -> Findings:
    types = types_of(node)
    if value is None:
        if types and "null" not in types and not node.nullable:
            return Findings(wrong_type(path, ",".join(types), "null"))
        return Findings(matches=1)
    name = type_name(value)
    fits = (
        name in types
        or (name == "number" and "integer" in types and is_whole(value))
        or (name == "integer" and "number" in types)
    )
    has_format = format_check(node.format) is not None
    is_text = name in ("string", "array")
    if has_format and not is_text and not fits:
        return Findings(
            wrong_type(path, node.format, {"integer": "int64", "number": "float64"}.get(name, ""))
        )
    if has_format and is_text and "number" not in types and "integer" not in types:
        return Findings(matches=1)
    if not fits:
        return Findings(wrong_type(path, ",".join(types), name))
    return Findings(matches=1)


def _enum(node: Node, value: Any, path: str) -> Findings:
    if not node.enum or any(same_value(value, allowed) for allowed in node.enum):
        return Findings()
    # In Go's text of it, which is shown nowhere, the values would be in brackets.
    return Findings(Finding(ENUM, path, f"{path} in body should be one of", value, node.enum))


def _string(node: Node, value: str, path: str) -> Findings:
    if node.max_length is not None and len(value) > node.max_length:
        text = f"{path} in body should be at most {node.max_length} chars long"
        return Findings(Finding(TOO_LONG, path, text, value, node.max_length))
    if node.min_length is not None and len(value) < node.min_length:
        return Findings(other(path, f"should be at least {node.min_length} chars long", value))
    if node.pattern and not compile_pattern(node.pattern).search(value):
        return Findings(other(path, f"should match '{node.pattern}'", value))
    return Findings()


def _number(node: Node, value: int | float, path: str) -> Findings:
    found = Findings(matches=1)
    if node.multiple_of is not None:
        _multiple(found, node.multiple_of, value, path)
    if node.minimum is not None:
        low = _bound(node.minimum, value)
        if value < low or (node.exclusive_minimum and value == low):
            than = "greater than" if node.exclusive_minimum else "greater than or equal to"
            found.add(other(path, f"should be {than} {number_text(low)}", value))
    if node.maximum is not None:
        high = _bound(node.maximum, value)
        if value > high or (node.exclusive_maximum and value == high):
            than = "less than" if node.exclusive_maximum else "less than or equal to"
            found.add(other(path, f"should be {than} {number_text(high)}", value))
    return found


def _bound(bound: float, value: int | float) -> int | float:
    """Bounds of integers are cut to integers."""
    return int(bound) if type(value) is int else float(bound)


def _multiple(found: Findings, factor: float, value: int | float, path: str) -> None:
    if type(value) is int and int(factor):
        whole = int(factor)
        if whole < 0:
            found.add(_negative_factor(path, str(whole), whole))
        elif value % whole:
            found.add(other(path, f"should be a multiple of {whole}", value))
        return
    if factor < 0:
        found.add(_negative_factor(path, number_text(float(factor)), factor))
    elif not factor or not is_whole(value / factor if factor >= 1 else 1 / factor * value):
        found.add(other(path, f"should be a multiple of {number_text(float(factor))}", value))


def _negative_factor(path: str, shown: str, factor: float) -> Finding:
    return Finding("other", path, f"factor MultipleOf declared for {path} must be positive: {shown}", factor)


def _list(node: Node, value: list[Any], path: str) -> Findings:
    found = Findings(matches=1)
    if node.items is not None:
        for index, item in enumerate(value):
            found.merge(validate(node.items, item, f"{path}[{index}]"))
    count = len(value)
    if node.min_items is not None and count < node.min_items:
        found.add(other(path, f"should have at least {node.min_items} items", count))
    if node.max_items is not None and count > node.max_items:
        text = f"{path} in body should have at most {node.max_items} items"
        found.add(Finding(TOO_MANY, path, text, count, node.max_items))
    return found


def _object(node: Node, value: dict[str, Any], path: str) -> Findings:
    count = len(value)
    if node.min_properties is not None and count < node.min_properties:
        return Findings(other(path, f"should have at least {node.min_properties} properties", count))
    if node.max_properties is not None and count > node.max_properties:
        text = f"{path} in body should have at most {node.max_properties} properties"
        return Findings(Finding(TOO_MANY, path, text, count, node.max_properties))
    found = Findings()
    if node.additional is False:
        for name in value:
            if name not in node.properties:
                found.add(Finding("other", path, f"{path}.{name} in body is a forbidden property", name))
    elif node.values is not None:
        for name, member in value.items():
            if name not in node.properties:
                found.merge(validate(node.values, member, f"{path}.{name}"))
    for name, inner in node.properties.items():
        if name in value:
            found.merge(validate(inner, value[name], f"{path}.{name}" if path else name))
    for name in node.required:
        if name not in value:
            found.add(Finding(REQUIRED, f"{path}.{name}", f"{path}.{name} in body is required"))
    return found


def _junctors(node: Node, value: Any, path: str) -> Findings:
    found = Findings(matches=1)
    if node.any_of:
        _any_of(found, node.any_of, value, path)
    if node.one_of:
        _one_of(found, node.one_of, value, path)
    if node.all_of:
        _all_of(found, node.all_of, value, path)
    if node.not_ is not None and not validate(node.not_, value, path):
        found.add(composite(f"{quoted_start(path)} must not validate the schema (not)"))
    return found


def _any_of(found: Findings, branches: tuple[Node, ...], value: Any, path: str) -> None:
    best: Findings | None = None
    for branch in branches:
        result = validate(branch, value, path)
        if not result:
            found.merge(result)
            return
        if best is None or result.matches > best.matches:
            best = result
    found.add(composite(f"{quoted_start(path)} must validate at least one schema (anyOf)"))
    if best is not None:
        found.merge(best)


def _one_of(found: Findings, branches: tuple[Node, ...], value: Any, path: str) -> None:
    best: Findings | None = None
    first: Findings | None = None
    valid = 0
    for branch in branches:
        result = validate(branch, value, path)
        if not result:
            valid += 1
            best, first = None, first or result
        elif not valid and (best is None or result.matches > best.matches):
            best = result
    if valid == 1:
        if first is not None:
            found.merge(first)
        return
    said = f"Found {valid} valid alternatives" if valid else "Found none valid"
    found.add(composite(f"{quoted_start(path)} must validate one and only one schema (oneOf). {said}"))
    if best is not None:
        found.merge(best)


def _all_of(found: Findings, branches: tuple[Node, ...], value: Any, path: str) -> None:
    valid = 0
    for branch in branches:
        result = validate(branch, value, path)
        valid += not result
        found.merge(result)
    if valid < len(branches):
        none = "" if valid else ". None validated"
        found.add(composite(f"{quoted_start(path)} must validate all the schemas (allOf){none}"))

"""Validates a value against a schema: whether it matches, and what is wrong if it does not.

`compile_validity` makes functions that say yes or no, without paths and texts. Almost all objects are valid, so this
is what a write costs. The function of a property is compiled when the first object has a value there; one with a
pattern that takes long to compile then needs a worker thread.

`validate` runs only after these have found that something is wrong, and defines what wrong means: exactly as v1.25,
every finding, in its order, with the text of kube-openapi; `name` is the path inside the object. Each keyword counts
a match when it passes; for anyOf and oneOf, the findings of the branch with the most matches are reported. Members of
maps have no order in v1.25; here they have that of the object. A property test compares the two.

`compile_list_types` checks that no two items of a list of type set or map are equal, or have equal keys. It returns
None for schemas without such lists. Only the first repetition of an item is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from rewound.actors.golang.format import float_text, show
from rewound.actors.golang.json import unescaped
from rewound.actors.golang.quoting import quoted_list, quoted_start
from rewound.actors.kinds.structural.coercion import CompiledOnUse
from rewound.actors.kinds.structural.formats import (
    compile_pattern,
    format_check,
    has_slow_pattern,
    longest_at_once,
)
from rewound.actors.kinds.structural.schema_node import Node, may_have
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    duplicate,
    invalid,
    required,
    reworded,
    too_many,
)
from rewound.actors.runtime.time_limit import check_time, need_thread
from rewound.actors.versions.features import BYTES_COUNTED_IN_TEXTS

TYPE, REQUIRED, TOO_LONG, ENUM, TOO_MANY, OTHER, COMPOSITE = (
    "type",
    "required",
    "too long",
    "enum",
    "too many",
    "other",
    "composite",
)
NO_PATH: Final = "<nil>"  # how Go prints a nil path


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    name: str
    text: str
    value: Any = None
    limit: Any = None  # a number, or the values of an enum


class Findings:
    """Findings without repeated texts, in the order in which the checks found them."""

    __slots__ = ("by_text", "matches")

    def __init__(self, *found: Finding, matches: int = 0) -> None:
        self.by_text = {one.text: one for one in found}
        self.matches = matches

    def __bool__(self) -> bool:
        return bool(self.by_text)

    def add(self, one: Finding) -> None:
        self.by_text.setdefault(one.text, one)

    def merge(self, others: Findings) -> None:
        for text, one in others.by_text.items():
            self.by_text.setdefault(text, one)
        self.matches += others.matches


def composite(text: str) -> Finding:
    return Finding(COMPOSITE, "", text)


def wrong_type(name: str, wanted: str, found: str) -> Finding:
    return Finding(TYPE, name, f"{name} in body must be of type {wanted}: {quoted_start(found)}", found)


def other(name: str, text: str, value: Any) -> Finding:
    return Finding(OTHER, name, f"{name} in body {text}", value)


def number_text(value: float) -> str:
    return float_text(value) if isinstance(value, float) else str(value)


def report(errors: FieldErrors, path: str, findings: Iterable[Finding]) -> None:
    """Add findings as errors. `path` is that of the value; empty for a whole object."""
    for one in findings:
        errors.add(_error(path, one))


def _error(path: str, one: Finding) -> FieldError:
    if one.code == COMPOSITE:
        return invalid(path or NO_PATH, "", one.text)
    field = _joined(path, one.name)
    value = show("" if one.value is None else one.value)
    match one.code:
        case "required":
            return required(field)
        case "enum":
            shown = show(one.value)
            listed = quoted_list([_allowed(allowed) for allowed in one.limit])
            return FieldError(
                "FieldValueNotSupported", field, f"Unsupported value: {shown}: supported values: {listed}"
            )
        case "too long":
            text = f"Too long: may not be longer than {one.limit}"
            later = f"Too long: may not be more than {one.limit} bytes"
            return FieldError("FieldValueTooLong", field, reworded(text, BYTES_COUNTED_IN_TEXTS, later))
        case "too many":
            return too_many(field, one.value, one.limit)
        case "type":
            return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {value}: {one.text}")
    return FieldError("FieldValueInvalid", field, f"Invalid value: {value}: {one.text}")


def _joined(path: str, name: str) -> str:
    name = name.removeprefix(".")
    if not name:
        return path or NO_PATH
    return f"{path}.{name}" if path else name


def _allowed(value: Any) -> str:
    return value if isinstance(value, str) else unescaped(value).decode()


_NAMES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_LARGEST_INTEGER: Final = float(2**53 - 1)  # the largest that a float holds exactly
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


NO_OLD: Final = object()  # no old value belongs to a value


def validate(node: Node, value: Any, path: str = "", old: Any = NO_OLD) -> Findings:
    """Return what is wrong. Findings about a value that is the same as its `old` one are dropped."""
    found = _validate(node, value, path, old)
    if found and old is not NO_OLD and is_unchanged(node, value, old):
        return Findings(matches=found.matches)
    return found


def is_unchanged(node: Node, new: Any, old: Any) -> bool:
    """Whether a value is the same as before; items of a keyed list may have another order."""
    if type(new) is not type(old):
        return False
    if type(new) is dict:
        return new.keys() == old.keys() and all(
            is_unchanged(_below(node, name), member, old[name]) for name, member in new.items()
        )
    if type(new) is list and node.list_type == "map" and node.items is not None:
        if len(new) != len(old):
            return False
        before = old_items(node, old)
        return all(is_unchanged(node.items, item, before(item)) for item in new)
    return bool(new == old)


_ANYTHING: Final = Node()


def _below(node: Node, name: str) -> Node:
    inner = node.properties.get(name, node.values)
    return _ANYTHING if inner is None else inner


def old_items(node: Node, old: Any) -> Callable[[Any], Any]:
    """Return the function that finds the old item with the keys of a new one: NO_OLD if there is none."""
    if node.type != "array" or node.list_type != "map" or type(old) is not list:
        return lambda _: NO_OLD
    by_key: dict[Any, Any] = {}
    for item in old:
        key = key_of(item, node.list_keys)
        if key is not None:
            by_key.setdefault(key, item)
    return lambda item: by_key.get(key_of(item, node.list_keys), NO_OLD)


def key_of(item: Any, names: Sequence[str]) -> Any:
    """Return what identifies an item of a keyed list, or None if a key is missing or is not a scalar."""
    if type(item) is not dict:
        return None
    key = []
    for name in names:
        value = item.get(name)
        if value is None or isinstance(value, (dict, list)):
            return None
        key.append((type(value), value))
    return tuple(key)


def _validate(node: Node, value: Any, path: str, old: Any) -> Findings:
    check_time()
    path = path[:_LONGEST_PATH]
    found = Findings()
    if value is None:
        found.merge(_check_type(node, value, path))
        found.merge(_check_enum(node, value, path))
        return found
    steps = [_check_junctors(node, value, path)]
    if node.type or node.int_or_string or format_check(node.format):
        steps.insert(0, _check_type(node, value, path))
    if type(value) is str:
        steps.append(_check_string(node, value, path))
        check = format_check(node.format)
        if check is not None:
            wrong = not check(value)
            steps.append(Findings(wrong_type(path, node.format, value)) if wrong else Findings())
    elif type(value) in (int, float):
        steps.append(_check_number(node, value, path))
    elif type(value) is list:
        steps.append(_check_list(node, value, path, old))
    steps.append(_check_enum(node, value, path))
    if type(value) is dict:
        steps.append(_check_object(node, value, path, old))
    for step in steps:
        found.merge(step)
        found.matches += 1
    found.matches += 1
    return found


def _check_type(node: Node, value: Any, path: str) -> Findings:
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


def _check_enum(node: Node, value: Any, path: str) -> Findings:
    if not node.enum or any(same_value(value, allowed) for allowed in node.enum):
        return Findings()
    # Go's text of it, which is shown nowhere, has the values in brackets.
    return Findings(Finding(ENUM, path, f"{path} in body should be one of", value, node.enum))


def _check_string(node: Node, value: str, path: str) -> Findings:
    if node.max_length is not None and len(value) > node.max_length:
        text = f"{path} in body should be at most {node.max_length} chars long"
        return Findings(Finding(TOO_LONG, path, text, value, node.max_length))
    if node.min_length is not None and len(value) < node.min_length:
        return Findings(other(path, f"should be at least {node.min_length} chars long", value))
    if node.pattern and not compile_pattern(node.pattern).search(value):
        return Findings(other(path, f"should match '{node.pattern}'", value))
    return Findings()


def _check_number(node: Node, value: int | float, path: str) -> Findings:
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
    """Return a bound; those of integers are truncated."""
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


def _check_list(node: Node, value: list[Any], path: str, old: Any) -> Findings:
    found = Findings(matches=1)
    if node.items is not None:
        find = old_items(node, old)
        for index, item in enumerate(value):
            found.merge(validate(node.items, item, f"{path}[{index}]", find(item)))
    count = len(value)
    if node.min_items is not None and count < node.min_items:
        found.add(other(path, f"should have at least {node.min_items} items", count))
    if node.max_items is not None and count > node.max_items:
        text = f"{path} in body should have at most {node.max_items} items"
        found.add(Finding(TOO_MANY, path, text, count, node.max_items))
    return found


def _check_object(node: Node, value: dict[str, Any], path: str, old: Any) -> Findings:
    count = len(value)
    before = old if type(old) is dict else {}
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
                found.merge(validate(node.values, member, f"{path}.{name}", before.get(name, NO_OLD)))
    for name, inner in node.properties.items():
        if name in value:
            was = NO_OLD if not path and name in ("kind", "apiVersion") else before.get(name, NO_OLD)
            found.merge(validate(inner, value[name], f"{path}.{name}" if path else name, was))
    for name in node.required:
        if name not in value:
            found.add(Finding(REQUIRED, f"{path}.{name}", f"{path}.{name} in body is required"))
    return found


def _check_junctors(node: Node, value: Any, path: str) -> Findings:
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


IsValid = Callable[[Any], bool]

_PYTHON_TYPES: Final = {"string": str, "boolean": bool, "array": list, "object": dict, "integer": int}
_MANY: Final = 256


def most_checks(root: Node) -> int:
    """Return how many schemas one value may have to be checked against, counting the values of enums."""
    most, waiting = 1, [root]
    while waiting:
        node = waiting.pop()
        branches = _branches(node)
        if branches or node.enum:
            texts = sum(1 for value in node.enum if type(value) is str)
            most = max(most, 1 + len(node.enum) - texts + sum(map(_size, branches)))
        waiting += node.properties.values()
        waiting += (one for one in (node.items, node.values) if one is not None)
    return most


def _branches(node: Node) -> tuple[Node, ...]:
    if node.not_ is None:
        return (*node.any_of, *node.one_of, *node.all_of)
    return (*node.any_of, *node.one_of, *node.all_of, node.not_)


def _size(node: Node) -> int:
    inner = (*node.properties.values(), *((node.items,) if node.items is not None else ()))
    return 1 + len(node.enum) + sum(map(_size, _branches(node))) + sum(map(_size, inner))


def compile_validity(node: Node) -> IsValid:
    if _is_plain_text(node):
        return _text(node)
    checks = [
        _compile_type(node),
        *_compile_string(node),
        *_compile_number(node),
        *_compile_list(node),
        *_compile_enum(node),
        *_compile_object(node),
    ]
    checks += _compile_junctors(node)
    steps = [check for check in checks if check is not None]
    if not steps:
        return _anything
    if len(steps) == 1 and steps[0].handles_null:
        return steps[0].check
    return _chain(node, steps)


def _is_plain_text(node: Node) -> bool:
    """Whether only type and length matter, as for most fields."""
    junctors = (node.any_of, node.one_of, node.all_of, node.not_)
    return (
        types_of(node) == ("string",)
        and not (node.nullable or node.pattern or node.enum or any(junctors))
        and format_check(node.format) is None
    )


def _text(node: Node) -> IsValid:
    if node.max_length is None and node.min_length is None:
        return lambda value: type(value) is str
    least, most = node.min_length or 0, 1 << 62 if node.max_length is None else node.max_length
    return lambda value: type(value) is str and least <= len(value) <= most


class _Check:
    """One keyword. `handles_null`: it also handles null, which the others never see."""

    __slots__ = ("check", "handles_null")

    def __init__(self, check: IsValid, *, handles_null: bool = False) -> None:
        self.check, self.handles_null = check, handles_null


def _chain(node: Node, steps: list[_Check]) -> IsValid:
    checks = tuple(step.check for step in steps)
    null = not validate(node, None)

    def is_valid(value: Any) -> bool:
        if value is None:
            return null
        for check in checks:  # noqa: SIM110 a generator would cost a third more
            if not check(value):
                return False
        return True

    return is_valid


def _anything(_: Any) -> bool:
    return True


def _compile_type(node: Node) -> _Check | None:
    types = types_of(node)
    if not types or format_check(node.format) is not None:
        return _exact_type(node) if types or node.format else None
    if len(types) == 1 and types[0] in _PYTHON_TYPES and types[0] != "integer":
        wanted = _PYTHON_TYPES[types[0]]
        if node.nullable:
            return _Check(lambda value: type(value) is wanted or value is None, handles_null=True)
        return _Check(lambda value: type(value) is wanted, handles_null=True)
    if types == ("integer",):
        return _Check(lambda value: type(value) is int or (type(value) is float and is_whole(value)))
    if types == ("number",):
        return _Check(lambda value: type(value) in (int, float))
    return _exact_type(node)


def _exact_type(node: Node) -> _Check:
    only_type = Node(
        type=node.type, format=node.format, nullable=node.nullable, int_or_string=node.int_or_string
    )
    return _Check(lambda value: not validate(only_type, value))


def _compile_string(node: Node) -> list[_Check]:
    high, low = node.max_length, node.min_length
    checks: list[_Check] = []
    if high is not None or low is not None:
        least, most = low or 0, high if high is not None else 1 << 62
        checks.append(_Check(lambda value: type(value) is not str or least <= len(value) <= most))
    if node.pattern:
        checks.append(_Check(_matches(node.pattern)))
    return checks


def _matches(pattern: str) -> IsValid:
    compiled = compile_pattern(pattern)
    search, longest = compiled.search, longest_at_once(compiled)

    def matches(value: Any) -> bool:
        if type(value) is not str:
            return True
        if len(value) > longest:
            need_thread()
        return search(value) is not None

    return matches


def _compile_number(node: Node) -> list[_Check]:
    checks: list[_Check] = []
    if node.minimum is not None or node.maximum is not None:
        checks.append(_Check(_within(node)))
    if node.multiple_of is not None:
        factor = Node(multiple_of=node.multiple_of)
        checks.append(_Check(lambda value: type(value) not in (int, float) or not validate(factor, value)))
    return checks


def _within(node: Node) -> IsValid:
    infinite = float("inf")
    low = -infinite if node.minimum is None else node.minimum
    high = infinite if node.maximum is None else node.maximum
    above, below = node.exclusive_minimum, node.exclusive_maximum
    # Bounds of integers are truncated.
    least = low if node.minimum is None else int(low)
    most = high if node.maximum is None else int(high)

    def is_within(value: Any) -> bool:
        if type(value) is int:
            first, last = least, most
        elif type(value) is float:
            first, last = low, high
        else:
            return True
        return first <= value <= last and not (above and value == first) and not (below and value == last)

    return is_within


def _compile_list(node: Node) -> list[_Check]:
    checks: list[_Check] = []
    high, low = node.max_items, node.min_items
    if high is not None or low is not None:
        least, most = low or 0, high if high is not None else 1 << 62
        checks.append(_Check(lambda value: type(value) is not list or least <= len(value) <= most))
    if node.items is not None:
        item = compile_validity(node.items)

        def all_valid(value: Any) -> bool:
            if type(value) is not list:
                return True
            check_time()
            return all(map(item, value))

        checks.append(_Check(all_valid))
    return checks


def _compile_enum(node: Node) -> list[_Check]:
    if not node.enum:
        return []
    texts = frozenset(value for value in node.enum if type(value) is str)
    others = tuple(value for value in node.enum if type(value) is not str)
    return [
        _Check(
            lambda value: (
                value in texts
                if type(value) is str
                else any(same_value(value, allowed) for allowed in others)
            )
        )
    ]


def _compile_object(node: Node) -> list[_Check]:
    checks: list[_Check] = []
    high, low = node.max_properties, node.min_properties
    if high is not None or low is not None:
        least, most = low or 0, high if high is not None else 1 << 62
        checks.append(_Check(lambda value: type(value) is not dict or least <= len(value) <= most))
    if node.required:
        needed = frozenset(node.required)
        checks.append(_Check(lambda value: type(value) is not dict or needed <= value.keys()))
    values: IsValid | None = _no_member if node.additional is False else None
    if node.values is not None:
        values = compile_validity(node.values)
    if node.properties:
        checks.append(_Check(_members(node.properties, values or _anything)))
    elif values is not None:
        checks.append(_Check(_all_members(values)))
    return checks


def _compile_property(node: Node) -> IsValid:
    if has_slow_pattern(node):
        need_thread()
    return compile_validity(node)


def _no_member(_: Any) -> bool:
    return False


def _members(nodes: Mapping[str, Node], rest: IsValid) -> IsValid:
    checks = CompiledOnUse(nodes, _compile_property)
    find = checks.get

    def is_valid(value: Any) -> bool:
        if type(value) is not dict:
            return True
        if len(value) > _MANY:
            check_time()
        for name, member in value.items():
            check = find(name)
            if check is None:
                check = checks[name] if name in nodes else rest
            if not check(member):
                return False
        return True

    return is_valid


def _all_members(check: IsValid) -> IsValid:
    def is_valid(value: Any) -> bool:
        if type(value) is not dict:
            return True
        if len(value) > _MANY:
            check_time()
        return all(map(check, value.values()))

    return is_valid


def _compile_junctors(node: Node) -> list[_Check]:
    checks: list[_Check] = []
    if node.any_of:
        any_of = tuple(map(compile_validity, node.any_of))
        checks.append(_Check(lambda value: any(branch(value) for branch in any_of)))
    if node.one_of:
        one_of = tuple(map(compile_validity, node.one_of))
        checks.append(_Check(lambda value: sum(branch(value) for branch in one_of) == 1))
    if node.all_of:
        all_of = tuple(map(compile_validity, node.all_of))
        checks.append(_Check(lambda value: all(branch(value) for branch in all_of)))
    if node.not_ is not None:
        forbidden = compile_validity(node.not_)
        checks.append(_Check(lambda value: not forbidden(value)))
    return checks


Visit = Callable[[FieldErrors, Any, str], None]

_NO_KEY: Final = object()


def compile_list_types(node: Node | None) -> Visit | None:
    if node is None or not may_have(node, "list-type"):
        return None
    here = _own_check(node)
    items, values = compile_list_types(node.items), compile_list_types(node.values)
    properties = {
        name: check for name, one in node.properties.items() if (check := compile_list_types(one)) is not None
    }
    if not (here or items or values or properties):
        return None

    def visit(errors: FieldErrors, value: Any, path: str) -> None:
        if type(value) is list:
            check_time()
            if here is not None:
                here(errors, value, path)
            if items is not None:
                for index, item in enumerate(value):
                    items(errors, item, f"{path}[{index}]")
        elif type(value) is dict:
            for name, member in value.items():
                if values is not None:
                    values(errors, member, f"{path}[{name}]")
                if name in properties:
                    properties[name](errors, member, f"{path}.{name}" if path else name)

    return visit


def _own_check(node: Node) -> Visit | None:
    if node.list_type == "set":
        return _set
    if node.list_type != "map":
        return None
    keys = node.list_keys
    return lambda errors, value, path: _map(errors, value, path, keys)


def _set(errors: FieldErrors, value: list[Any], path: str) -> None:
    if _are_different(value):
        return
    for index in _repeated(value):
        errors.add(duplicate(f"{path}[{index}]", show(value[index])))


def _map(errors: FieldErrors, value: list[Any], path: str, names: Sequence[str]) -> None:
    if len(names) == 1 and _have_different(value, names[0]):
        return
    for index, item in enumerate(value):
        if item is not None and type(item) is not dict:
            text = "must be an object for an array of list-type map"
            errors.add(invalid(f"{path}[{index}]", show(item), text))
            return
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in value]
    # With a single key its value counts, so that a missing key differs from every value.
    compared = [key.get(names[0], _NO_KEY) for key in keys] if len(names) == 1 else keys
    for index in _repeated(compared):
        errors.add(duplicate(f"{path}[{index}]", show(keys[index])))


def _have_different(value: list[Any], key: str) -> bool:
    """Whether all items are objects with different keys; False also if that needs a closer look."""
    try:
        return _are_different([item[key] for item in value])
    except (KeyError, TypeError):
        return False


def _are_different(values: list[Any]) -> bool:
    try:
        return len(set(values)) == len(values)
    except TypeError:  # lists and objects are not hashable
        return False


def _repeated(values: Sequence[Any]) -> list[int]:
    if len(values) < 2:
        return []
    seen: dict[Any, int] = {}
    found = []
    for index, value in enumerate(values):
        key = _comparable(value)
        times = seen[key] = seen.get(key, 0) + 1
        if times == 2:
            found.append(index)
    return found


def _comparable(value: Any) -> Any:
    """1, 1.0 and true are three values; objects are equal if their JSON is."""
    if isinstance(value, (dict, list)):
        return unescaped(value, option=orjson.OPT_SORT_KEYS)
    return type(value), value

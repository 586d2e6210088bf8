"""Whether a value fits a schema, compiled to functions: yes or no, without paths and texts.

Almost all objects are valid, so this is what a write costs; `exact` says what is wrong with the others, and
must agree with this module (a property test compares them). The function of a property is compiled when the first
object has a value there; one with a pattern that takes long to compile needs a worker thread then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from actors.kinds.structural.coercion import CompiledOnUse
from actors.kinds.structural.node import Node
from actors.kinds.structural.patterns import compile_pattern, has_slow_pattern, longest_at_once
from actors.kinds.structural.validation.exact import is_whole, same_value, types_of
from actors.kinds.structural.validation.exact import validate as validate_exactly
from actors.kinds.structural.validation.formats import format_check
from actors.time_limit import check_time, need_thread

IsValid = Callable[[Any], bool]

_PYTHON_TYPES: Final = {"string": str, "boolean": bool, "array": list, "object": dict, "integer": int}
_MANY: Final = 256


def most_checks(root: Node) -> int:
    """How many schemas one value may have to be checked against, counting the values of enums."""
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
    checks = [_type(node), *_string(node), *_number(node), *_list(node), *_enum(node), *_object(node)]
    checks += _junctors(node)
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
    """One keyword. `handles_null`: it has the right answer for null too, which others never see."""

    __slots__ = ("check", "handles_null")

    def __init__(self, check: IsValid, *, handles_null: bool = False) -> None:
        self.check, self.handles_null = check, handles_null


def _chain(node: Node, steps: list[_Check]) -> IsValid:
    checks = tuple(step.check for step in steps)
    null = not validate_exactly(node, None)

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


def _type(node: Node) -> _Check | None:
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
    return _Check(lambda value: not validate_exactly(only_type, value))


def _string(node: Node) -> list[_Check]:
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


def _number(node: Node) -> list[_Check]:
    checks: list[_Check] = []
    if node.minimum is not None or node.maximum is not None:
        checks.append(_Check(_within(node)))
    if node.multiple_of is not None:
        factor = Node(multiple_of=node.multiple_of)
        checks.append(
            _Check(lambda value: type(value) not in (int, float) or not validate_exactly(factor, value))
        )
    return checks


def _within(node: Node) -> IsValid:
    infinite = float("inf")
    low = -infinite if node.minimum is None else node.minimum
    high = infinite if node.maximum is None else node.maximum
    above, below = node.exclusive_minimum, node.exclusive_maximum
    # Bounds of integers are cut to integers.
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


def _list(node: Node) -> list[_Check]:
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


def _enum(node: Node) -> list[_Check]:
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


def _object(node: Node) -> list[_Check]:
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


def _junctors(node: Node) -> list[_Check]:
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

"""Whether one type can stand for another, and what type variables must be for it: cel-go's rules.

An attempt that fails takes back what it bound. Types that the checker builds, and the steps of all attempts together,
are bounded: variables that stand for types with two variables each make types double in size at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.cel.types import DYN, Type, TypeParameter, list_of, map_of

_PRIMITIVES: Final = frozenset(("bool", "int", "uint", "double", "string", "bytes"))
_KINDS: Final = dict.fromkeys(_PRIMITIVES, "primitive") | {
    "null": "null",
    "dyn": "dyn",
    "any": "dyn",
    "!error!": "error",
    "<nil>": "unknown",
    "duration": "well-known",
    "timestamp": "well-known",
    "list": "list",
    "map": "map",
    "type": "type",
    "wrapper": "wrapper",
}
_NULLABLE: Final = frozenset(("object", "null", "well-known", "wrapper"))
_WILD: Final = frozenset(("dyn", "error"))

LARGEST_TYPE: Final = 10_000
_STEPS: Final = 200_000
_STEPS_PER_CHARACTER: Final = 50


class TypeTooComplex(Exception):
    """Inferring the types of an expression takes more than any useful expression needs."""


def kind_of(of: Type) -> str:
    return "parameter" if of.__class__ is TypeParameter else _KINDS.get(of.name, "object")


class Bindings:
    """The type variables of one expression."""

    __slots__ = ("_bound", "_fresh", "_steps", "_trail")

    def __init__(self, source_length: int) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0
        self._steps = _STEPS + _STEPS_PER_CHARACTER * source_length

    def fresh(self) -> TypeParameter:
        self._fresh += 1
        return TypeParameter(f"_var{self._fresh - 1}")

    def assignable(self, given: Type, wanted: Type) -> bool:
        return self.all_assignable((given,), (wanted,))

    def all_assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        self._trail.clear()
        if self._all_fit(given, wanted):
            return True
        for name, before in reversed(self._trail):
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def substitute(self, of: Type, unbound_is_dyn: bool = False) -> Type:
        """The type with every bound variable replaced by what it stands for."""
        found = self._substitute(of, unbound_is_dyn)
        if found.size > LARGEST_TYPE:
            raise TypeTooComplex
        return found

    def _substitute(self, of: Type, unbound_is_dyn: bool) -> Type:
        self._step()
        while of.__class__ is TypeParameter:
            bound = self._bound.get(of.name)
            if bound is None:
                return DYN if unbound_is_dyn else of
            of = bound
        if not of.parameters:
            return of
        return Type(of.name, tuple([self._substitute(inner, unbound_is_dyn) for inner in of.parameters]))

    def _bind(self, variable: Type, to: Type) -> None:
        if to.size > LARGEST_TYPE:
            raise TypeTooComplex
        self._trail.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = to

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise TypeTooComplex

    def _all_fit(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        if len(given) != len(wanted):
            return False
        return all(map(self._fits, given, wanted))

    def _fits(self, given: Type, wanted: Type) -> bool:
        self._step()
        if wanted.__class__ is TypeParameter:
            fits, was_bound = self._stands_for(given, wanted)
            if fits or was_bound:
                return fits
        if given.__class__ is TypeParameter:
            return self._stands_for(wanted, given)[0]
        kind, other = kind_of(given), kind_of(wanted)
        if kind in _WILD or other in _WILD:
            return True
        if kind == "null":
            return other in _NULLABLE
        if kind == "wrapper":
            given, kind = given.parameters[0], "primitive"
        if kind == "primitive":
            return given.name == (wanted.parameters[0].name if other == "wrapper" else wanted.name)
        if kind != other or kind == "unknown":
            return False
        if kind == "list" or kind == "map":
            return self._all_fit(given.parameters, wanted.parameters)
        return kind == "type" or given.name == wanted.name

    def _stands_for(self, other: Type, variable: Type) -> tuple[bool, bool]:
        """Whether `variable` can stand for `other`, and whether it was bound before."""
        if other == variable:
            return True, True
        bound = self._bound.get(variable.name)
        if bound is None:
            if self._occurs(variable, other):
                return False, False
            self._bind(variable, other)
            return True, False
        if other == bound:
            return True, True
        if not self._fits(other, bound):
            return False, True
        general = other if is_as_general(other, bound) else bound
        if not self._occurs(variable, general):
            self._bind(variable, general)
        return True, True

    def _occurs(self, variable: Type, within: Type) -> bool:
        seen: set[str] = set()
        waiting = [within]
        while waiting:
            self._step()
            of = waiting.pop()
            if of.__class__ is not TypeParameter:
                waiting.extend(of.parameters if of.name != "type" else ())
            elif of.name == variable.name:
                return True
            elif of.name not in seen:
                seen.add(of.name)
                bound = self._bound.get(of.name)
                if bound is not None:
                    waiting.append(bound)
        return False


def is_as_general(first: Type, second: Type) -> bool:
    """Whether `first` equals `second`, or has dyn or a variable where the second is more specific."""
    kind, other = kind_of(first), kind_of(second)
    if kind == "dyn" or kind == "parameter":
        return True
    if other == "dyn" or other == "parameter" or kind != other:
        return False
    if kind == "list" or kind == "map":
        return all(map(is_as_general, first.parameters, second.parameters))
    return kind == "type" or first == second


def bounded_list(item: Type) -> Type:
    return _bounded(list_of(item))


def bounded_map(key: Type, value: Type) -> Type:
    return _bounded(map_of(key, value))


def _bounded(made: Type) -> Type:
    if made.size > LARGEST_TYPE:
        raise TypeTooComplex
    return made

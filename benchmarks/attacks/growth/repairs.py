"""Makes objects that grow valid, by what the server's own rules say about small ones.

A rule names the field and mostly what it wants: a value that is required, the values that it supports, an example, a
range, or members that exclude each other. Two elements are enough to learn it; the repairs apply to all elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

import msgspec

from benchmarks.attacks.growth.documents import Path, example_of, filled, grown
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.schema.fields import ListOf, MapOf, Scalar, Struct, Type
from tests.actors.kinds.definitions import Causes, Definitions

_ROUNDS: Final = 8
_LEARNED_FROM: Final = 2  # elements
_INDEX: Final = re.compile(r"\[[^]]*\]")
# What a message says of the value that a field wants.
_WANTED: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Any]], ...]] = (
    (re.compile(r'supported values: "([^"]+)"'), lambda match: match[1]),
    (re.compile(r"must be either '?(\w+)"), lambda match: match[1]),
    (re.compile(r"\(e\.g\. '?([^' ,)]+)"), lambda match: match[1]),
    (
        re.compile(r"must be (?:between|greater than(?: or equal to)?|in the range) \(?(-?[0-9]+)"),
        lambda match: int(match[1]) + 1,
    ),
    (re.compile("must be a relative path"), lambda _: "p{i}"),
    (re.compile("must be an absolute path"), lambda _: "/p{i}"),
    (re.compile("compilation failed"), lambda _: "1 < 2"),
)
_EXCLUSIVE: Final = re.compile(
    "^Forbidden|must not be (?:specified|set)|more than (?:1|one)|exactly one|only one"
    "|may not be specified when|in combination|both"
)
_SIBLINGS: Final = re.compile("more than (?:1|one)|may not be specified when|may not be set")
# Members that no choice between others excludes: what every object, volume or container has.
_KEPT: Final = frozenset({"name", "metadata", "capacity", "image"})


class Repair(msgspec.Struct, frozen=True):
    """A value for the field at this path in all elements; without a value it is removed."""

    path: Path
    value: Any = None

    def apply(self, document: dict[str, Any]) -> None:
        *around, name = self.path
        for index, holder in enumerate(_holders(document, tuple(around), make=self.value is not None)):
            present = holder.get(name)
            if self.value is None:
                holder.pop(name, None)
            elif isinstance(present, list) and not isinstance(self.value, list):
                holder[name] = [self.value] * len(present)
            else:
                holder[name] = filled(self.value, index)


class Repairs:
    """Of the objects of a catalog, learned once for each place."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._learned: dict[tuple[Definition, tuple[Path, ...]], tuple[Repair, ...]] = {}

    def grown(self, definition: Definition, *paths: Path, count: int) -> dict[str, Any]:
        """An object with `count` elements, keys or characters at these places, or this number."""
        document = grown(definition, *paths, count=count)
        for repair in self._of(definition, paths):
            repair.apply(document)
        return document

    def _of(self, definition: Definition, paths: tuple[Path, ...]) -> tuple[Repair, ...]:
        key = definition, paths
        if key not in self._learned:
            self._learned[key] = tuple(self._learn(definition, paths))
        return self._learned[key]

    def _learn(self, definition: Definition, paths: tuple[Path, ...]) -> list[Repair]:
        document = grown(definition, *paths, count=_LEARNED_FROM)
        learned: list[Repair] = []
        fewest = len(self._causes(definition, document))
        kept: list[Repair] = []
        for _ in range(_ROUNDS):
            causes = self._causes(definition, document)
            if len(causes) <= fewest:
                fewest, kept = len(causes), learned[:]
            found = [each for each in _repairs_of(causes, definition, paths, document) if each not in learned]
            if not found:
                break
            for repair in found:
                repair.apply(document)
            learned += found
        return learned if not self._causes(definition, document) else kept

    def _causes(self, definition: Definition, document: dict[str, Any]) -> Causes:
        sent = {
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            **deepcopy(document),
        }
        try:
            return self._definitions.create_causes(definition.plural, sent)
        except (AssertionError, NotDecodable):
            return [("", "it cannot be decoded")]


def _repairs_of(
    causes: Causes, definition: Definition, paths: tuple[Path, ...], document: dict[str, Any]
) -> Iterator[Repair]:
    for field, message in causes:
        path = tuple(part for part in _INDEX.sub("", field).split(".") if part)
        if not path:
            continue
        grows, type_ = path in paths, _type_at(definition.fields, path)
        if message.startswith("Required value") and type_ is not None and not grows:
            yield Repair(path, example_of(type_, path[-1]))
        elif _is_scalar(type_, grows=grows) and (wanted := _wanted(message)) is not None:
            yield Repair(path, wanted)
        elif _EXCLUSIVE.search(message):
            yield from _removed(path, paths, document, inside=_SIBLINGS.search(message) is None)


def _wanted(message: str) -> Any:
    for pattern, read in _WANTED:
        if (match := pattern.search(message)) is not None:
            return read(match)
    return None


def _is_scalar(type_: Type | None, *, grows: bool) -> bool:
    """Whether a single value can be set here; a list of them that grows has the same value in all places."""
    if isinstance(type_, ListOf):
        return isinstance(type_.item, Scalar)
    return isinstance(type_, Scalar) and not grows


def _removed(
    path: Path, paths: tuple[Path, ...], document: dict[str, Any], *, inside: bool
) -> Iterator[Repair]:
    """Remove the field. If the place that grows is in it, remove what excludes it: other members, inside or around."""
    if not any(each[: len(path)] == path for each in paths):
        yield Repair(path)
        return
    around = path if inside else path[:-1]
    on_the_way = {each[len(around)] for each in paths if len(each) > len(around)}
    for holder in _holders(document, around):
        for name, value in holder.items():
            if name not in on_the_way | _KEPT and (inside or not isinstance(value, list)):
                yield Repair((*around, name))


def _holders(value: Any, path: Path, *, make: bool = False) -> Iterator[dict[str, Any]]:
    """The maps at a path, in all elements of the lists and maps on the way. `make` the last one if it is missing."""
    if isinstance(value, list):
        for item in value:
            yield from _holders(item, path, make=make)
    elif isinstance(value, dict):
        if not path:
            yield value
        elif path[0] in value:
            yield from _holders(value[path[0]], path[1:], make=make)
        elif make and len(path) == 1:
            yield value.setdefault(path[0], {})


def _type_at(struct: Struct, path: Path) -> Type | None:
    type_: Type = struct
    for name in path:
        while isinstance(type_, (ListOf, MapOf)):
            type_ = type_.item if isinstance(type_, ListOf) else type_.value
        if not isinstance(type_, Struct) or name not in type_.by_name:
            return None
        type_ = type_.by_name[name].type
    return type_

"""The paths and the list types of custom kinds, encoded once for all kinds of the same shape.

The paths of two custom kinds differ in names only, if both have the same scope and subresources. So the ordinary writer
writes the paths of a kind whose names are single characters that no document contains, and a kind's own paths are this
text with its names in their places. Their list types differ in names only too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from actors.go_json import dumps
from actors.kinds.custom.definition import CustomDefinition
from actors.kinds.declaration.definition import Definition, DiscoveryNames
from actors.kinds.schema.fields import CustomStruct, JsonValue, Struct
from actors.names import Names as Dialect
from gateway.describe.openapi.naming import Naming
from gateway.describe.openapi.operations import Operations, Path
from gateway.describe.openapi.schemas import References
from gateway.wire.meta_types import list_of

# Characters of Unicode's private use area stand for the names: of three bytes each, and never escaped in JSON.
_MARKS: Final = [chr(0xE000 + number) for number in range(8)]
_GROUP, _VERSION, _PLURAL, _KIND, _LIST_KIND, _DOMAIN, _TAG, _INFIX = _MARKS
_ANY_MARK: Final = re.compile(b"(" + b"|".join(mark.encode() for mark in _MARKS) + b")")

Shape = tuple[object, ...]
Written = tuple[bytes, References]  # and the types that it refers to


class Writer(Protocol):
    def paths(self, paths: Iterable[Path], naming: Naming) -> Written: ...

    def definition(self, struct: Struct, naming: Naming) -> Written: ...


class _MarkedNaming(Naming):
    """Names that derive from the group are marks too."""

    def struct(self, struct: Struct | JsonValue) -> str:
        if isinstance(struct, CustomStruct):
            return f"{_DOMAIN}.{_VERSION}.{struct.kind}"
        return super().struct(struct)

    def tag(self, group: str, version: str = "") -> str:
        return _TAG

    def infix(self, group: str, version: str = "") -> str:
        return _INFIX


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a kind in documents."""

    kind: str  # of its definition
    list: str  # of the definition of its list type
    values: tuple[bytes, ...]  # of the marks


@dataclass(frozen=True, slots=True)
class Template:
    pieces: tuple[bytes, ...]  # every second one is a mark
    marks: tuple[int, ...]  # which ones
    digest: bytes
    referred: References

    @classmethod
    def of(cls, written: Written) -> Template:
        encoded, references = written
        pieces = _ANY_MARK.split(encoded)
        marks = tuple(_MARKS.index(one.decode()) for one in pieces[1::2])
        return cls(tuple(pieces), marks, hashlib.sha256(encoded).digest(), references)

    def fill(self, names: Names) -> bytes:
        """The text of a kind."""
        parts, values = list(self.pieces), names.values
        parts[1::2] = [values[mark] for mark in self.marks]
        return b"".join(parts)

    def references(self, names: Names) -> References:
        """The types that the text of a kind refers to; its own ones are the marked ones of the template."""
        return {
            _own_name(type_, names) if isinstance(type_, CustomStruct) else name: type_
            for name, type_ in self.referred.items()
        }


def _own_name(marked: CustomStruct, names: Names) -> str:
    return names.kind if marked.kind == _KIND else names.list


class Templates:
    def __init__(self, names: Dialect, verbs: frozenset[str], writer: Writer) -> None:
        """`verbs` are those that the server serves."""
        self._naming, self._marked = Naming(names), _MarkedNaming(names)
        self._verbs = verbs
        self._writer = writer
        self._templates: dict[Shape, tuple[Template, Template]] = {}

    def of(self, definition: CustomDefinition) -> tuple[Template, Template]:
        """For the paths and for the list type of a kind."""
        shape = (
            definition.verbs,
            definition.namespaced,
            tuple(one.name for one in definition.subresources),
            _has_usual_list_kind(definition),
        )
        found = self._templates.get(shape)
        if found is None:
            found = self._templates[shape] = self._make(definition)
        return found

    def _make(self, definition: CustomDefinition) -> tuple[Template, Template]:
        marked, naming = _marked(definition), self._marked
        paths = self._writer.paths(Operations(marked, self._verbs, naming).paths(), naming)
        list_type = self._writer.definition(list_of(marked.fields), naming)
        return Template.of(paths), Template.of(list_type)

    def names_of(self, definition: CustomDefinition) -> Names:
        group, version = definition.group, definition.version
        kind, list_kind = definition.kind, definition.list_kind
        domain = ".".join(reversed(group.split(".")))
        tag, infix = self._naming.tag(group, version), self._naming.infix(group, version)
        values = group, version, definition.plural, kind, list_kind, domain, tag, infix
        return Names(
            f"{domain}.{version}.{kind}",
            f"{domain}.{version}.{list_kind}",
            tuple(dumps(one)[1:-1] for one in values),
        )


def _has_usual_list_kind(definition: Definition) -> bool:
    """The text that describes a list depends on how its kind ends."""
    return definition.list_kind == f"{definition.kind}List"


def _marked(definition: CustomDefinition) -> Definition:
    """A definition of the same shape, with marks for names."""
    list_kind = f"{_KIND}List" if _has_usual_list_kind(definition) else _LIST_KIND
    return Definition(
        group=_GROUP,
        version=_VERSION,
        kind=_KIND,
        plural=_PLURAL,
        names=DiscoveryNames(list_kind=list_kind),
        namespaced=definition.namespaced,
        check_name=definition.check_name,
        fields=CustomStruct(_GROUP, _VERSION, _KIND, list_kind=list_kind, make_schema=dict),
        verbs=definition.verbs,
        strategic_merge_patch=definition.strategic_merge_patch,
        subresources=definition.subresources,
        deletion=definition.deletion,
    )

"""A door to objects: one version of their kind and one path, the object itself or a subresource.

It says what is tracked of the writes through it, and the way from and to storage. What a door puts back to its old
value whatever is sent (`resets` in declarations) is left out of the shape, so nobody becomes its owner there, has a
conflict over it or removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.decoder import Schema
from actors.kinds.schema.fields import zero_struct
from actors.messages import Object
from actors.patch.managed_fields.topology import Record, Shapes

# What the server keeps by itself in the metadata of every object.
NEVER_OWNED: Final = (
    "name",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
)


@dataclass(frozen=True, slots=True)
class Door:
    version: str
    subresource: str
    schema: Schema
    shape: Record
    exact: Record  # the same, for objects whose owners are kept: entries must be told apart
    nothing: Object  # an object of which nothing was said
    show: Callable[[Object], Object]  # a stored object in this version
    store: Callable[[Object], Object]
    resets: tuple[str, ...] = ()  # paths that are put back, where there is something to put back to


class Doors:
    """The doors of one stored type, made when first asked for."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._shapes = {version: (Shapes(), Shapes(exact=True)) for version in definitions}
        self._made: dict[tuple[str, str], Door] = {}

    def find(self, version: str, subresource: str) -> Door | None:
        """None for a version that is not served (any more)."""
        made = self._made.get((version, subresource))
        if made is None and version in self._definitions:
            made = self._made[version, subresource] = self._make(version, subresource)
        return made

    def __call__(self, version: str, subresource: str) -> Door:
        door = self.find(version, subresource)
        assert door is not None
        return door

    def _make(self, version: str, subresource: str) -> Door:
        definition = self._definitions[version]
        conversion, excluded = definition.conversion, _excluded(definition, subresource)
        shapes, exact = self._shapes[version]
        return Door(
            version,
            subresource,
            definition.schema,
            shapes.root(definition.fields, excluded),
            exact.root(definition.fields, excluded),
            zero_struct(definition.fields, fill=False),
            conversion.from_storage if conversion else _as_it_is,
            conversion.to_storage if conversion else _as_it_is,
            definition.reset_by(subresource),
        )


def _as_it_is(stored: Object) -> Object:
    return stored


def _excluded(definition: Definition, subresource: str) -> dict[str, Any]:
    excluded: dict[str, Any] = {"metadata": dict.fromkeys(NEVER_OWNED)}
    for path in definition.reset_by(subresource):
        *around, name = path.split(".")
        inside = excluded
        for outer in around:
            inside = inside.setdefault(outer, {})
        inside[name] = None
    return excluded

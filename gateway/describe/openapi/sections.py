"""The API cut into parts, each with a document of its own in edition 3; edition 2 has them all in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from gateway.describe.openapi.operations import Operations, Path
from gateway.describe.openapi.roots import Roots
from gateway.describe.openapi.titles import Titles


@dataclass(frozen=True, slots=True)
class Section:
    """`name` is where it stands below /openapi/v3: api/v1, apis/apps/v1."""

    name: str
    root: Path
    definitions: tuple[Definition, ...]
    served: frozenset[str]
    titles: Titles

    def paths(self) -> Iterator[Path]:
        yield self.root
        for definition in self.definitions:
            yield from Operations(definition, self.served, self.titles).paths()


def sections(catalog: Catalog, served: frozenset[str], titles: Titles) -> Iterator[Section]:
    roots = Roots(titles)

    def section(name: str, root: Path, definitions: tuple[Definition, ...] = ()) -> Section:
        return Section(name, root, definitions, served, titles)

    yield section("api", roots.versions())
    yield section("apis", roots.groups())
    yield section("version", roots.build())
    for group, versions in catalog.groups().items():
        if group:
            yield section(f"apis/{group}", roots.group(group))
        for version in versions:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            yield section(name, roots.resources(group, version), catalog.of_version(group, version))

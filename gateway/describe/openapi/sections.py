"""Sections of the API: each has one document in OpenAPI 3.0; OpenAPI 2.0 has all of them in one document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.names import REWIND_GROUP
from gateway.describe.openapi.discovery_paths import DiscoveryPaths, paths_of_the_past
from gateway.describe.openapi.naming import Naming
from gateway.describe.openapi.operations import Operations, Path


@dataclass(frozen=True, slots=True)
class Section:
    """`name` is its path below /openapi/v3: api/v1, apis/apps/v1.

    Its paths are made when its document is: there may be a thousand groups, and clients want one.
    """

    name: str
    discovery_path: Callable[[], Path] | None  # None: discovery is not described, as that of custom kinds
    definitions: tuple[Definition, ...]
    verbs: frozenset[str]  # that the server serves
    naming: Naming
    more_paths: tuple[Path, ...] = ()  # that do not belong to one definition

    def paths(self) -> Iterator[Path]:
        if self.discovery_path is not None:
            yield self.discovery_path()
        yield from self.more_paths
        for definition in self.definitions:
            yield from Operations(definition, self.verbs, self.naming).paths()


NOTHING: Final[Mapping[str, Section]] = {}


def sections(
    catalog: Catalog,
    verbs: frozenset[str],
    naming: Naming,
    *,
    describes_issuer: bool = True,
    describes_past: bool = True,
    known: Mapping[str, Section] = NOTHING,
) -> Iterator[Section]:
    """`known` are the sections of an earlier catalog; those with the same definitions are taken over."""
    paths = DiscoveryPaths(naming)

    def section(
        name: str, path: Callable[[], Path] | None, definitions: tuple[Definition, ...] = ()
    ) -> Section:
        return Section(name, path, definitions, verbs, naming)

    yield section("api", paths.versions)
    yield section("apis", paths.groups)
    yield section("version", paths.version)
    if describes_issuer:
        yield section(".well-known/openid-configuration", paths.issuer_configuration)
        yield section("openid/v1/jwks", paths.issuer_keys)
    if describes_past:
        yield section(f"apis/{REWIND_GROUP}", partial(paths.group, REWIND_GROUP))
        resources, past = partial(paths.resources, REWIND_GROUP, "v1"), tuple(paths_of_the_past(naming))
        yield Section(f"apis/{REWIND_GROUP}/v1", resources, (), verbs, naming, past)
    for group, versions in catalog.groups().items():
        found = {version: catalog.of_version(group, version) for version in versions}
        if group and not all(map(_are_custom, found.values())):
            name = f"apis/{group}"
            yield known.get(name) or section(name, partial(paths.group, group))
        for version, definitions in found.items():
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            old = known.get(name)
            if old is None or old.definitions != definitions:
                path = None if _are_custom(definitions) else partial(paths.resources, group, version)
                old = section(name, path, definitions)
            yield old


def _are_custom(definitions: tuple[Definition, ...]) -> bool:
    return all(one.is_custom for one in definitions)

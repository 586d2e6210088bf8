"""What there is to record: the kinds of discovery that can be listed and watched, one for each stored type.

A type that several group versions serve (events, horizontalpodautoscalers) is recorded once, in the version in which
this release stores it if the server has that. Kinds that this release does not know are recorded as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import trio

from actors.kinds.apiextensions.definition import definition_type
from actors.kinds.catalog import Catalog, preference
from actors.kinds.declaration.definition import Definition
from actors.names import Names
from gateway.client.errors import ClientError
from gateway.client.streaming import StreamingSession

Document = dict[str, Any]
_NEEDED = {"list", "watch"}
AT_ONCE = 8  # discovery documents that are read at the same time


@dataclass(frozen=True, slots=True)
class RecordedKind:
    type_name: str  # in the journal: configmaps, leases.coordination.k8s.io
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    # Of this release, if it has the kind: of the version in which objects are stored, and of the recorded one. A server
    # of another release may have versions that this one does not have.
    definition: Definition | None = field(default=None, compare=False)
    storage: Definition | None = field(default=None, compare=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_built_in(self) -> bool:
        """Whether this release has the kind; objects of all others are stored with their apiVersion."""
        return self.storage is not None

    def path(self, namespace: str) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{where}/{self.plural}"

    def has_name(self, text: str) -> bool:
        """Whether a user means this kind: by plural, singular, short name or kind, with the group or without."""
        name, _, group = text.lower().partition(".")
        names = {self.plural, self.singular, self.kind.lower(), *self.short_names}
        return name in names and group in ("", self.group, f"{self.version}.{self.group}")


@dataclass(frozen=True, slots=True)
class Discovered:
    kinds: tuple[RecordedKind, ...]
    problems: tuple[str, ...]  # group versions that could not be read


async def discover(session: StreamingSession, catalog: Catalog, names: Names) -> Discovered:
    """All kinds that can be recorded. ClientError if the server cannot be reached."""
    found: dict[str, list[RecordedKind]] = {}
    declared = {(one.group, one.version, one.plural): one for one in catalog.declared}
    problems: list[str] = []
    group_versions = await _group_versions(session)
    listed: dict[tuple[str, str], list[Document]] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def read(group: str, version: str) -> None:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            async with limit:
                listed[group, version] = (await session.get_document(path)).get("resources", [])
        except ClientError as error:
            problems.append(f"{path} cannot be read and is left out: {error}")

    async with trio.open_nursery() as nursery:
        for group, version in group_versions:
            nursery.start_soon(read, group, version)
    for group, version in group_versions:
        for one in recordable(listed.get((group, version), []), group, version, catalog, declared):
            found.setdefault(one.type_name, []).append(one)
    kinds = [_choose(of_type) for of_type in found.values()]
    # Definitions first: they are the kinds of what follows.
    kinds.sort(key=lambda one: (one.type_name != definition_type(names), one.type_name))
    return Discovered(tuple(kinds), tuple(problems))


async def dialect_of(session: StreamingSession, known: Iterable[Names]) -> Names:
    """The dialect of the server, by the names of its groups. ClientError."""
    groups = {one["name"] for one in (await session.get_document("/apis")).get("groups", [])}
    for names in known:
        if names.group("authentication") in groups:
            return names
    raise ClientError(f"{session.target.server} serves no authentication group; is it an API server?")


async def _group_versions(session: StreamingSession) -> list[tuple[str, str]]:
    found = [("", version) for version in (await session.get_document("/api")).get("versions", [])]
    for group in (await session.get_document("/apis")).get("groups", []):
        found += [(group["name"], one["version"]) for one in group.get("versions", [])]
    return found


def recordable(
    resources: Iterable[Document],
    group: str,
    version: str,
    catalog: Catalog,
    declared: dict[tuple[str, str, str], Definition],
) -> Iterable[RecordedKind]:
    """The resources of a discovery document that can be listed and watched."""
    for one in resources:
        plural, kind = one.get("name", "/"), one.get("kind", "")
        if "/" in plural or not kind or not _NEEDED.issubset(one.get("verbs") or ()):
            continue
        definition = declared.get((group, version, plural))
        type_name = f"{plural}.{group}" if group else plural
        if definition is not None:
            type_name = definition.type_name
        yield RecordedKind(
            type_name,
            group,
            version,
            plural,
            kind,
            bool(one.get("namespaced")),
            one.get("singularName", ""),
            tuple(one.get("shortNames") or ()),
            definition,
            None if catalog.stored_type(type_name) is None else catalog.storage(type_name),
        )


def _choose(of_type: list[RecordedKind]) -> RecordedKind:
    """The version to record: the stored one, else one that this release has, else the preferred one."""

    def rank(one: RecordedKind) -> tuple[bool, bool, Any]:
        stored = one.definition is not None and not one.definition.storage.stored_as
        return not stored, one.definition is None, preference(one.version)

    return min(of_type, key=rank)

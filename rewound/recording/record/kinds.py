"""Finds the kinds to record: those in discovery that can be listed and watched, one for each stored type.

A type that several group versions serve (events, horizontalpodautoscalers) is recorded once, in the version in which
this release stores it if the server has that. Kinds that this release does not know are recorded as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import trio

from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.catalog import Catalog, preference
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from rewound.actors.versions.version import check_version, nearest_version
from rewound.client.errors import ClientError, NoDocument, StatusError
from rewound.client.streaming import StreamingSession

Document = dict[str, Any]
_NEEDED = {"list", "watch"}
AT_ONCE = 8  # discovery documents that are read at the same time
MAX_KINDS = 10_000  # each has a watch; also the most group versions
# Valid names of groups, versions and kinds; they are part of the journal's keys.
_GROUP = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_VERSION = re.compile(r"v?1\.[0-9]{1,3}")
_NOT_SAID = (403, 404)
_UNREADABLE = (AttributeError, KeyError, TypeError)  # errors of malformed documents


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
    # This release's definitions of the kind, if it has any: of the stored version, and of the recorded one. A server of
    # another release may have versions that this one does not have.
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
        """Whether a name means this kind: plural, singular, short name or kind, with or without the group."""
        name, _, group = text.lower().partition(".")
        names = {self.plural, self.singular, self.kind.lower(), *self.short_names}
        return name in names and group in ("", self.group, f"{self.version}.{self.group}")


class UnknownKind(ClientError):
    """The user asks for a kind that the server does not have."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"--kinds: {text!r} is not a kind of this server that can be listed and watched; name others, such as "
            "pods or deployments.apps (`kubectl api-resources` prints all), or leave --kinds out"
        )


class ClusterScopedKind(UnknownKind):
    """The user asks for one namespace of a cluster-scoped kind."""

    def __init__(self, text: str) -> None:
        ClientError.__init__(
            self,
            f"--kinds: objects of {text!r} are in no namespace; leave --namespace out, or {text!r}",
        )


@dataclass(frozen=True, slots=True)
class Discovered:
    kinds: tuple[RecordedKind, ...]
    problems: tuple[str, ...]  # group versions that could not be read
    unreadable: frozenset[str] = frozenset()  # their groups
    unwatched: tuple[str, ...] = ()  # types that can be listed, but not watched


async def discover(session: StreamingSession, catalog: Catalog, names: Names) -> Discovered:
    """All kinds that can be recorded. Raises ClientError if the server cannot be reached."""
    found: dict[str, list[RecordedKind]] = {}
    declared = {(one.group, one.version, one.plural): one for one in catalog.declared}
    problems: list[str] = []
    unreadable, unwatched = set[str](), set[str]()
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
            unreadable.add(group)

    async with trio.open_nursery() as nursery:
        for group, version in group_versions:
            nursery.start_soon(read, group, version)
    for group, version in group_versions:
        resources = listed.get((group, version), [])
        try:
            kinds_of_version = list(recordable(resources, group, version, catalog, declared))
            unwatched |= set(_unwatched(resources, group))
        except _UNREADABLE as error:
            problems.append(f"{group}/{version} cannot be read and is left out: {error!r}")
            unreadable.add(group)
            continue
        for one in kinds_of_version:
            found.setdefault(one.type_name, []).append(one)
    kinds = [_choose(of_type) for of_type in found.values()]
    # Definitions first: later objects need them.
    kinds.sort(key=lambda one: (one.type_name != definition_type(names), one.type_name))
    return Discovered(
        tuple(kinds), tuple(problems), frozenset(unreadable), tuple(sorted(unwatched - found.keys()))
    )


async def dialect_of(session: StreamingSession, known: Iterable[Names]) -> Names:
    """The dialect of the server, by the names of its groups. Raises ClientError if it has none."""
    try:
        groups = {one["name"] for one in (await session.get_document("/apis")).get("groups", [])}
    except _UNREADABLE as error:
        raise ClientError(f"{session.target.server}/apis cannot be read: {error!r}") from error
    for names in known:
        if names.group("authentication") in groups:
            return names
    raise ClientError(f"{session.target.server} serves no authentication group; is it an API server?")


async def version_of(session: StreamingSession, names: Names) -> str:
    """The version of Kubernetes that is nearest to what the server says; empty if it does not say one to this user.

    Raises ClientError if the server does not respond: what it is then is not known, and no reason to take another one.
    """
    if names.dialect != "kubernetes":
        return check_version(names.dialect, "")
    try:
        said = (await session.get_document("/version"))["gitVersion"]
    except StatusError as error:
        if error.code not in _NOT_SAID:
            raise
        return ""
    except (NoDocument, *_UNREADABLE):
        return ""
    return nearest_version(said) if isinstance(said, str) and _VERSION.match(said) else ""


async def _group_versions(session: StreamingSession) -> list[tuple[str, str]]:
    """The group versions with valid names. Raises ClientError if discovery cannot be read."""
    core, groups = await session.get_document("/api"), await session.get_document("/apis")
    try:
        found = [("", version) for version in core.get("versions", []) if _LABEL.fullmatch(version)]
        for group in groups.get("groups", []):
            versions = [one["version"] for one in group.get("versions", [])]
            if _GROUP.fullmatch(group["name"]):
                found += [(group["name"], one) for one in versions if _LABEL.fullmatch(one)]
    except _UNREADABLE as error:
        raise ClientError(f"{session.target.server}: discovery cannot be read: {error!r}") from error
    if len(found) > MAX_KINDS:
        raise ClientError(f"{session.target.server} has more than {MAX_KINDS:,} group versions")
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
        if not _LABEL.fullmatch(plural) or not _LABEL.fullmatch(kind):
            continue  # a subresource, or nothing that the journal could have
        if not _NEEDED.issubset(one.get("verbs") or ()):
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
            str(one.get("singularName", "")),
            tuple(map(str, one.get("shortNames") or ())),
            definition,
            None if catalog.stored_type(type_name) is None else catalog.storage(type_name),
        )


def _unwatched(resources: Iterable[Document], group: str) -> Iterable[str]:
    for one in resources:
        plural, verbs = one.get("name", "/"), one.get("verbs") or ()
        if _LABEL.fullmatch(plural) and "list" in verbs and "watch" not in verbs:
            yield f"{plural}.{group}" if group else plural


def kind_of(
    place: tuple[str, str, str], kind: str, namespaced: bool, catalog: Catalog, definition: Definition | None
) -> RecordedKind | None:
    """A kind by group, version and plural, as an audit log names it; `kind` and `namespaced` count for custom kinds.

    None for kinds that no server stores (reviews, bindings, unknown kinds of v1) and for invalid names.
    """
    group, version, plural = place
    if definition is not None:
        if not definition.is_stored:
            return None
        kind, namespaced = definition.kind, definition.namespaced
    elif not (group and _GROUP.fullmatch(group) and all(map(_LABEL.fullmatch, (version, plural, kind)))):
        return None
    type_name = f"{plural}.{group}" if definition is None else definition.type_name
    storage = None if catalog.stored_type(type_name) is None else catalog.storage(type_name)
    if storage is not None:
        namespaced = storage.namespaced
    return RecordedKind(
        type_name, group, version, plural, kind, namespaced, definition=definition, storage=storage
    )


def _choose(of_type: list[RecordedKind]) -> RecordedKind:
    """Choose the version to record: the stored one, else one that this release has, else the preferred one."""

    def rank(one: RecordedKind) -> tuple[bool, bool, Any]:
        stored = one.definition is not None and not one.definition.storage.stored_as
        return not stored, one.definition is None, preference(one.version)

    return min(of_type, key=rank)

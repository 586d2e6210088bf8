"""Discovery documents, derived from the registry's current catalog: /api, /apis, a group, a group version.

Verbs that a kind declares but that no handler serves are left out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol

from actors.aggregation.api_services import ApiServices
from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition, Subresource
from actors.kinds.registry import Registry
from actors.names import REWIND_GROUP
from gateway.describe import rewind_group

Document = dict[str, Any]

# Of a custom kind whose definition is being deleted. Updates are served too, for finalizers, but not listed.
TERMINATING_VERBS: Final = ("delete", "deletecollection", "get", "list", "watch")
_STORED: Final = frozenset({"create", "get"})  # reviews have no get, component statuses no create


class KnownResources(Protocol):
    @property
    def resources(self) -> Mapping[tuple[str, str], list[Document]]:
        """The resources of group versions of other servers, as these last listed them."""


class Discovery:
    def __init__(
        self,
        registry: Registry,
        api_services: ApiServices,
        aggregated: KnownResources,
        verbs: frozenset[str],
        address: Callable[[], str],
        *,
        serves_past: bool = True,
    ) -> None:
        """`address()`: by which clients are to reach this server.

        `serves_past`: whether the group of the past is served.
        """
        self._registry = registry
        self._api_services = api_services
        self._aggregated = aggregated
        self._verbs = verbs
        self.address = address
        self._serves_past = serves_past
        self._sorted: tuple[Catalog, int, dict[str, tuple[str, ...]]] | None = None

    @property
    def catalog(self) -> Catalog:
        return self._registry.current

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Versions by group: of the catalog and of other servers, by their priorities, and the group of the past."""
        catalog, changes = self.catalog, self._api_services.changes
        if self._sorted is None or self._sorted[0] is not catalog or self._sorted[1] != changes:
            groups = dict(self._api_services.sorted_groups(catalog.groups()))
            if self._serves_past:
                groups[REWIND_GROUP] = (rewind_group.VERSION,)
            self._sorted = catalog, changes, groups
        return self._sorted[2]

    def is_remote(self, group: str, version: str) -> bool:
        """Whether another server serves the group version."""
        return (group, version) in self._api_services.remote

    def remote_resources(self, group: str, version: str) -> list[Document] | None:
        """What another server lists for the group version; None if it has not responded yet."""
        return self._aggregated.resources.get((group, version))

    def find(self, path: str) -> Document | None:
        """The document at a path such as /apis/storage.cluster.io/v1; None if there is none."""
        match path.strip("/").split("/"):
            case ["api"]:
                return self._core()
            case ["apis"]:
                return self._groups()
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._group_at(group)
            case ["apis", group, version]:
                return self._resources(group, version)
        return None

    def knows_group(self, path: str) -> bool:
        """Whether the path is in a served group, even if the path itself has no document.

        In groups of custom kinds alone, what does not exist is a path that does not exist.
        """
        match path.strip("/").split("/"):
            case ["api", *_]:
                return True
            case ["apis", group, *_]:
                is_custom = self.catalog.group_exists(group) and not self._registry.built_in.group_exists(
                    group
                )
                return group in self.groups() and not is_custom
        return False

    def is_plain_path(self, path: str) -> bool:
        """Whether a document responds to any method: groups and their list, and the versions of custom kinds."""
        match path.strip("/").split("/"):
            case ["apis"] | ["apis", _]:
                return True
            case ["apis", group, _]:
                return not self._registry.built_in.group_exists(group) and group != REWIND_GROUP
        return False

    def paths(self) -> list[str]:
        """All discovery paths, for the index at /."""
        found = ["/api", "/api/v1", "/apis"]
        for group, versions in self.groups().items():
            if group:
                found += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        return found

    def _core(self) -> Document:
        return {
            "kind": "APIVersions",  # without an apiVersion, as v1.25 has it
            "versions": list(self.groups().get("", ())),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.address()}],
        }

    def _groups(self) -> Document:
        groups = [_group(group, versions) for group, versions in self.groups().items() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group_at(self, group: str) -> Document | None:
        versions = self.groups().get(group)
        if not versions or not group:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}

    def _resources(self, group: str, version: str) -> Document | None:
        definitions = self.catalog.of_version(group, version)
        if self._serves_past and (group, version) == (REWIND_GROUP, rewind_group.VERSION):
            resources = rewind_group.resources(self.catalog)
        elif definitions:
            resources = [entry for one in definitions for entry in self._entries(one)]
        else:
            return None
        if not definitions or not definitions[0].is_custom:
            resources.sort(key=lambda entry: str(entry["name"]))
        return {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if group else {}),  # the core group has none in v1.25
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": resources,
        }

    def _entries(self, definition: Definition) -> list[Document]:
        own: Document = {
            "name": definition.plural,
            "singularName": definition.names.singular,
            "namespaced": definition.namespaced,
            "kind": definition.kind,
            "verbs": self.verbs_of(definition),
        }
        if definition.names.short_names:
            own["shortNames"] = list(definition.names.short_names)
        if definition.names.categories:
            own["categories"] = list(definition.names.categories)
        if (version := self._storage_version_hash(definition)) is not None:
            own["storageVersionHash"] = version
        subresources = (self._subresource(definition, one) for one in definition.subresources)
        return [own, *(entry for entry in subresources if entry["verbs"])]

    def _subresource(self, definition: Definition, one: Subresource) -> Document:
        entry: Document = {
            "name": f"{definition.plural}/{one.name}",
            "singularName": "",
            "namespaced": definition.namespaced,
        }
        if one.version:
            entry |= {"group": one.group, "version": one.version}
        return entry | {"kind": one.kind or definition.kind, "verbs": self.served(one.verbs)}

    def _storage_version_hash(self, definition: Definition) -> str | None:
        """The storageVersionHash; None for a kind that is never stored.

        It is equal for all versions that share a storage, so that clients that migrate objects do so once.
        """
        if not frozenset(definition.verbs) >= _STORED:
            return None
        storage = self.catalog.storage(definition.type_name)
        version = storage.storage.announced_version or storage.version
        type_ = f"{storage.group}/{version}/{storage.kind}"
        return b64encode(sha256(type_.encode()).digest()[:8]).decode()

    def verbs_of(self, definition: Definition) -> list[str]:
        """Those of custom kinds are in the order that clients know."""
        if not definition.is_custom:
            return self.served(definition.verbs)
        return list(TERMINATING_VERBS if definition.create_refusal else definition.verbs)

    def served(self, verbs: tuple[str, ...]) -> list[str]:
        return sorted(verb for verb in verbs if verb in self._verbs)


def _group(group: str, versions: tuple[str, ...]) -> Document:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}

"""Discovery documents, derived from the registry's current catalog: /api, /apis, a group, a group version; and all
groups with all their resources in one document, for clients that ask for it (aggregated discovery).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol

from rewound.actors.aggregation.api_services import ApiServices
from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import REWIND_GROUP
from rewound.actors.versions.features import (
    AGGREGATED_DISCOVERY,
    NO_BETA_DISCOVERY,
    OUR_DISCOVERY,
    STABLE_DISCOVERY,
)
from rewound.gateway.describe.compressed import etag_of, matches, quoted
from rewound.gateway.message import Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.wire.negotiate import DISCOVERY_LIST, ResponseKind

Document = dict[str, Any]

# For a custom kind whose definition is being deleted. Updates are served too, for finalizers, but not listed.
TERMINATING_VERBS: Final = ("delete", "deletecollection", "get", "list", "watch")
_STORED: Final = frozenset({"create", "get"})  # reviews have no get, component statuses no create


class KnownResources(Protocol):
    @property
    def resources(self) -> Mapping[tuple[str, str], list[Document]]:
        """The resources of other servers' group versions, as last listed."""


class Discovery:
    def __init__(
        self,
        registry: Registry,
        api_services: ApiServices,
        aggregated: KnownResources,
        verbs: frozenset[str],
        address: Callable[[], str],
        *,
        features: frozenset[str] = frozenset(),
        serves_history: bool = True,
    ) -> None:
        """`address()` returns where clients reach this server; `serves_history`: rewound.cluster.io is served."""
        self._registry = registry
        self._api_services = api_services
        self._aggregated = aggregated
        self._verbs = verbs
        self.address = address
        self._serves_history = serves_history
        self.groups_kind = _groups_kind(features)
        self._sorted: tuple[Catalog, int, dict[str, tuple[str, ...]]] | None = None

    @property
    def catalog(self) -> Catalog:
        return self._registry.current

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Versions by group: those of the catalog and of other servers, by priority, and rewound.cluster.io."""
        catalog, changes = self.catalog, self._api_services.changes
        if self._sorted is None or self._sorted[0] is not catalog or self._sorted[1] != changes:
            groups = dict(self._api_services.sorted_groups(catalog.groups()))
            if self._serves_history:
                groups[REWIND_GROUP] = (VERSION,)
            self._sorted = catalog, changes, groups
        return self._sorted[2]

    def listed_groups(self) -> dict[str, tuple[str, ...]]:
        """The groups that clients search for resources.

        rewound.cluster.io only has subresources of other groups' objects. Clients find no resource there, and some
        would therefore request it again at every lookup of a resource.
        """
        return {group: versions for group, versions in self.groups().items() if group != REWIND_GROUP}

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

        False for groups with custom kinds only, in which an unknown path gets the plain 404.
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
            "kind": "APIVersions",  # without an apiVersion, like v1.25
            "versions": list(self.groups().get("", ())),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.address()}],
        }

    def _groups(self) -> Document:
        groups = [_group(group, versions) for group, versions in self.listed_groups().items() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group_at(self, group: str) -> Document | None:
        versions = self.groups().get(group)
        if not versions or not group:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}

    def _resources(self, group: str, version: str) -> Document | None:
        definitions = self.catalog.of_version(group, version)
        if self._serves_history and (group, version) == (REWIND_GROUP, VERSION):
            resources = rewind_resources(self.catalog)
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
        """The verbs of a kind; those of custom kinds are in the order that clients know."""
        if not definition.is_custom:
            return self.served(definition.verbs)
        return list(TERMINATING_VERBS if definition.create_refusal else definition.verbs)

    def served(self, verbs: tuple[str, ...]) -> list[str]:
        return sorted(verb for verb in verbs if verb in self._verbs)


def _groups_kind(features: frozenset[str]) -> ResponseKind:
    """How clients can get the API groups: in which versions of aggregated discovery, if any."""
    if OUR_DISCOVERY in features:
        return "groups"
    if AGGREGATED_DISCOVERY not in features:
        return "document"
    if STABLE_DISCOVERY not in features:
        return "groups/v2beta1"
    return "groups/v2" if NO_BETA_DISCOVERY in features else "groups"


def _group(group: str, versions: tuple[str, ...]) -> Document:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


async def aggregated(context: RequestContext, discovery: Discovery, path: str) -> Response:
    """Aggregated discovery: the named groups (at /apis) or the core group (at /api), with all resources, in one
    document.

        Accept: application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList

    It saves clients a request for every version of every group. The document is not cached: it takes a millisecond,
    and clients rarely download it, because they cache it by its ETag.
    """
    representation = context.representation
    document = {
        "kind": DISCOVERY_LIST,
        "apiVersion": f"{representation.as_group}/{representation.as_version}",
        "metadata": {},
        "items": list(_groups(discovery, core=path.strip("/") == "api")),
    }
    etag = etag_of(unescaped(document))
    headers = [(b"etag", quoted(etag)), (b"vary", b"Accept")]
    if matches(context.request.headers.get(b"if-none-match"), etag):
        return Response(304, b"", b"", headers)
    response = await render.document(context, document)
    response.headers += headers
    parameters = f";g={representation.as_group};v={representation.as_version};as={representation.as_kind}"
    response.content_type = representation.content_type + parameters.encode()
    return response


def _groups(discovery: Discovery, *, core: bool) -> Iterator[Document]:
    for group, versions in discovery.listed_groups().items():
        if core == (not group):
            listed = [_version(discovery, group, version) for version in versions]
            yield {"metadata": {"name": group} if group else {}, "versions": listed}


def _version(discovery: Discovery, group: str, version: str) -> Document:
    if discovery.is_remote(group, version):
        listed = discovery.remote_resources(group, version)
        freshness = "Stale" if listed is None else "Current"
        return {
            "version": version,
            "resources": _remote(listed or []),
            "freshness": freshness,
        }
    definitions = discovery.catalog.of_version(group, version)
    found = (_resource(discovery, one) for one in definitions)
    resources = sorted(found, key=lambda one: str(one["resource"]))
    return {"version": version, "resources": resources, "freshness": "Current"}


def _remote(listed: list[Document]) -> list[Document]:
    """The entries of an APIResourceList of another server, with subresources below their resources."""
    found: dict[str, Document] = {}
    for one in sorted(listed, key=lambda one: str(one["name"])):
        name, _, subresource = str(one["name"]).partition("/")
        kind = _kind(one.get("group") or "", one.get("version") or "", str(one.get("kind", "")))
        if not subresource:
            entry = {
                "resource": name,
                "responseKind": kind,
                "scope": "Namespaced" if one.get("namespaced") else "Cluster",
                "singularResource": one.get("singularName") or "",
                "verbs": one.get("verbs") or [],
            }
            found[name] = entry | {key: one[key] for key in ("shortNames", "categories") if one.get(key)}
        elif name in found:
            below = {"subresource": subresource, "responseKind": kind, "verbs": one.get("verbs") or []}
            found[name].setdefault("subresources", []).append(below)
    return list(found.values())


def _resource(discovery: Discovery, definition: Definition) -> Document:
    entry: Document = {
        "resource": definition.plural,
        "responseKind": _own_kind(definition),
        "scope": "Namespaced" if definition.namespaced else "Cluster",
        "singularResource": definition.names.singular or definition.kind.lower(),
        "verbs": discovery.verbs_of(definition),
    }
    if definition.names.short_names:
        entry["shortNames"] = list(definition.names.short_names)
    if definition.names.categories:
        entry["categories"] = list(definition.names.categories)
    subresources = [_subresource(discovery, definition, one) for one in definition.subresources]
    if served := [one for one in subresources if one["verbs"]]:
        entry["subresources"] = served
    return entry


def _subresource(discovery: Discovery, definition: Definition, one: Subresource) -> Document:
    kind = _kind(one.group, one.version, one.kind) if one.version else _own_kind(definition, one.kind)
    return {
        "subresource": one.name,
        "responseKind": kind,
        "verbs": discovery.served(one.verbs),
    }


def _own_kind(definition: Definition, kind: str = "") -> Document:
    """A kind of the group version itself, which only custom kinds name; for others clients take that of the path."""
    own = (definition.group, definition.version) if definition.is_custom else ("", "")
    return _kind(*own, kind or definition.kind)


def _kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}


VERSION: Final = "v1"
# Subresource, kind that is sent or returned, verb.
SUBRESOURCES: Final = (
    ("blame", "Blame", "get"),
    ("history", "History", "get"),
    ("rollback", "Rollback", "create"),
    ("undelete", "Undelete", "create"),
)


def rewindable(catalog: Catalog) -> Iterator[tuple[str, Definition]]:
    """Every stored resource as paths name it, RESOURCE[.GROUP], with the definition of its preferred version."""
    found: set[str] = set()
    for group, versions in catalog.groups().items():
        for version in versions:
            for definition in catalog.of_version(group, version):
                name = str(definition.resource)
                if definition.is_stored and definition.has_items and name not in found:
                    found.add(name)
                    yield name, definition


def rewind_resources(catalog: Catalog) -> list[Document]:
    """The APIResourceList entries of rewound.cluster.io/v1: the subresources of every stored resource.

        configmaps/history    deployments.apps/blame    nodes/rollback

    They are listed as subresources without their resource, so that no client takes the group for a second place
    where ConfigMaps are stored.
    """
    return [
        {
            "name": f"{name}/{subresource}",
            "singularName": "",
            "namespaced": definition.namespaced,
            "kind": kind,
            "verbs": [verb],
        }
        for name, definition in rewindable(catalog)
        for subresource, kind, verb in SUBRESOURCES
    ]

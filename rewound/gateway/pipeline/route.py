"""Parses path and method into verb, group, version, namespace, resource, name and subresource.

    GET  /api/v1/namespaces/default/configmaps/web       get configmaps/web in default
    GET  /apis/storage.cluster.io/v1/storageclasses      list storageclasses
    PUT  /api/v1/namespaces/default/status               update namespaces/default, subresource status
    OPTIONS /api/v1/namespaces                           no verb: a right to it needs *, as in Kubernetes
    GET  /livez                                          get of a path; HEAD is another verb there
    GET  /apis/rewound.cluster.io/v1/namespaces/default/deployments.apps/web/history
                                                         get deployments/web in default, subresource history
    GET  /apis/rewound.cluster.io/v1/timeline            get of a path: it shows what the caller may list

The route does not depend on which resources exist. Authorization uses it alone, so that a user without rights learns
nothing about what is served.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

from rewound.actors.errors import PathTooLong
from rewound.actors.names import REWIND_GROUP

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
ITEM_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
COLLECTION_VERBS = {**ITEM_VERBS, "GET": "list", "HEAD": "list", "DELETE": "deletecollection"}

# The web page about the journal, and the timeline that it reads.
PAGE_PATH = "/debug/journal/"
TIMELINE = "timeline"
TIMELINE_PATH = f"/apis/{REWIND_GROUP}/v1/{TIMELINE}"

# The stream that standbys and backups follow.
FEED_PATH = "/journal/feed"

HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})

# Clients repeat their paths. Long ones are not cached, so that the cache stays below a megabyte.
_CACHED_ROUTES = 1024
_CACHED_LENGTH = 256
# Bytes. Each escape in a path takes half a microsecond, before anything is known of the client.
LONGEST_PATH = 32 * 1024

# Subresources that a pod, a service or a kubelet serves; such requests have no time limit.
_FORWARDED = {
    "pods": frozenset({"attach", "exec", "log", "portforward", "proxy"}),
    "services": frozenset({"proxy"}),
    "nodes": frozenset({"proxy"}),
}


class Route:
    """Not a NamedTuple: a request reads some twenty attributes, and those of a tuple take three times as long."""

    __slots__ = (
        "forwarded",
        "group",
        "has_extra_segments",
        "is_resource",
        "name",
        "namespace",
        "path",
        "resource",
        "rewinds",
        "shape",
        "subresource",
        "verb",
        "version",
    )

    def __init__(
        self,
        verb: str,
        path: str,
        is_resource: bool,
        group: str = "",
        version: str = "",
        namespace: str = "",
        resource: str = "",
        name: str = "",
        subresource: str = "",
        has_extra_segments: bool = False,
        rewinds: bool = False,
        shape: str = "",
    ) -> None:
        self.verb = verb
        self.path = path  # decoded
        self.is_resource = is_resource
        self.group = group
        self.version = version
        self.namespace = namespace
        self.resource = resource
        self.name = name
        self.subresource = subresource
        self.has_extra_segments = has_extra_segments  # more segments than any resource path has
        # About the history of the object: its path begins with the group rewound.cluster.io.
        self.rewinds = rewinds
        # Method, verb, resource and which names the path has, without the names themselves; empty for non-resource
        # paths and paths about history.
        self.shape = shape
        # whether a pod, a service or a kubelet responds
        self.forwarded = (
            bool(subresource) and subresource in _FORWARDED.get(resource, ()) and not group and not rewinds
        )

    def with_verb(self, verb: str) -> Route:
        return Route(
            verb,
            self.path,
            self.is_resource,
            self.group,
            self.version,
            self.namespace,
            self.resource,
            self.name,
            self.subresource,
            self.has_extra_segments,
            self.rewinds,
            self.shape,
        )


def check_path(raw_path: str) -> None:
    """Raise PathTooLong if the path is longer than any that a client needs."""
    if len(raw_path) > LONGEST_PATH:
        raise PathTooLong(LONGEST_PATH)


def find_route(method: str, raw_path: str, watch: bool = False) -> Route:
    """The route of a path; of a longer one than `check_path` allows, only its beginning."""
    if len(raw_path) <= _CACHED_LENGTH:
        return _cached(method, raw_path, watch)
    if len(raw_path) > LONGEST_PATH:
        return Route(method.lower(), raw_path[:LONGEST_PATH], False)
    return _parse(method, raw_path, watch)


def is_forwarded_path(raw_path: str) -> bool:
    return find_route("GET", raw_path).forwarded


def group_version_of(route: Route) -> tuple[str, str] | None:
    """The group version that a resource or a discovery document belongs to; None for all other paths."""
    if route.is_resource:
        return None if route.rewinds else (route.group, route.version)
    match route.path.strip("/").split("/"):
        case ["apis", group, version]:
            return group, version
        case ["api", version]:
            return "", version
    return None


def _parse(method: str, raw_path: str, watch: bool) -> Route:
    path = unquote(raw_path) if "%" in raw_path else raw_path
    first, *parts = path.strip("/").split("/")
    if first == "api" and len(parts) > 1:
        return _resource(method, path, "", parts[0], parts[1:], watch)
    if first == "apis" and len(parts) > 2 and parts[0] == REWIND_GROUP and parts[2] != TIMELINE:
        return _rewinding(method, path, parts[1], parts[2:])
    if first == "apis" and len(parts) > 2 and parts[0] != REWIND_GROUP:
        return _resource(method, path, parts[0], parts[1], parts[2:], watch)
    return Route(method.lower(), path, False)


def _resource(method: str, path: str, group: str, version: str, parts: list[str], watch: bool) -> Route:
    namespace = name = subresource = ""
    is_watch_path = parts[0] == "watch" and len(parts) > 1  # /api/v1/watch/...
    if is_watch_path:
        parts = parts[1:]
    depth = len(parts)
    if depth > 1 and parts[0] == "namespaces":
        namespace = parts[1]
        if depth > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
            depth -= 2
    if depth > 1:
        name = parts[1]
        if depth > 2:
            subresource = parts[2]
    verb = (ITEM_VERBS if name else COLLECTION_VERBS).get(method, "")
    if is_watch_path or (watch and not subresource and verb in ("get", "list")):
        verb = "watch"
    resource = parts[0]
    levels = f"{bool(namespace)} {bool(name)} {depth > 3}"
    shape = f"{method} {verb}/{group}/{version}/{resource}/{subresource}/{levels}"
    return Route(
        verb, path, True, group, version, namespace, resource, name, subresource, depth > 3, shape=shape
    )


def _rewinding(method: str, path: str, version: str, parts: list[str]) -> Route:
    """A path about the history of an object. Its group and resource are those of the object: RESOURCE[.GROUP]."""
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 3:
        namespace, parts = parts[1], parts[2:]
    resource, _, group = parts[0].partition(".")
    name, subresource, *rest = (*parts[1:], "", "")
    if resource == "namespaces" and not group:
        namespace = name  # as in other requests for a Namespace
    verb = (ITEM_VERBS if name else COLLECTION_VERBS).get(method, "")
    return Route(
        verb, path, True, group, version, namespace, resource, name, subresource, any(rest), rewinds=True
    )


_cached = lru_cache(_CACHED_ROUTES)(_parse)

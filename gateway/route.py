"""What a path and a method ask for, before anybody knows whether it exists.

    GET  /api/v1/namespaces/default/configmaps/web       get configmaps/web in default
    GET  /apis/storage.cluster.io/v1/storageclasses      list storageclasses
    PUT  /api/v1/namespaces/default/status               update namespaces/default, subresource status
    GET  /livez                                          get of a path

Authorization is decided on this alone, so that a caller without rights learns nothing of what is served.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_ITEM_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "POST": "create",
    "PATCH": "patch",
    "DELETE": "delete",
}
_COLLECTION_VERBS = {**_ITEM_VERBS, "GET": "list", "HEAD": "list", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class Route:
    verb: str
    path: str  # decoded
    is_resource: bool
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    surplus: bool = False  # more segments than any resource path has


def find_route(method: str, raw_path: str, *, watch: bool = False) -> Route:
    path = unquote(raw_path) if "%" in raw_path else raw_path
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return _resource(method, path, "", parts[1], parts[2:], watch)
    if parts[0] == "apis" and len(parts) > 3:
        return _resource(method, path, parts[1], parts[2], parts[3:], watch)
    return Route(_path_verb(method), path, is_resource=False)


def _path_verb(method: str) -> str:
    return "get" if method == "HEAD" else method.lower()


def _resource(method: str, path: str, group: str, version: str, parts: list[str], watch: bool) -> Route:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource, *surplus = [*parts, "", "", ""][: max(3, len(parts))]
    verbs = _ITEM_VERBS if name else _COLLECTION_VERBS
    verb = verbs.get(method, method.lower())
    if watch and verb in ("get", "list"):
        verb = "watch"
    return Route(
        verb, path, True, group, version, namespace, resource, name, subresource, surplus=bool(surplus)
    )

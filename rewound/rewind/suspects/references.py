"""What an object names: ConfigMaps, Secrets, claims, classes, its account, its node, its owners and targets.

It walks whatever is stored, also objects of custom kinds, and knows fields by their names, as all kinds of Kubernetes
use them: `configMapRef`, `secretName`, `claimName`, `{kind, name}`. A value of the wrong type counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from rewound.rewind.suspects.past import Document, Name, Past

MAX_VISITED: Final = 5_000  # values of one object
MAX_REFERENCES: Final = 100  # of one object

# The field below which `name` (or the second field) is that of an object of this type.
_NAMED_IN: Final = {
    "configMap": "configmaps",
    "configMapRef": "configmaps",
    "configMapKeyRef": "configmaps",
    "secret": "secrets",
    "secretRef": "secrets",
    "secretKeyRef": "secrets",
    "nodePublishSecretRef": "secrets",
    "imagePullSecrets": "secrets",
    "service": "services",
}
# Fields of custom kinds end like these: `passwordSecretRef`, `existingSecret`, `valuesConfigMap`.
_NAMED_LIKE: Final = re.compile(
    r"(?i:(?P<secrets>secret)|(?P<configmaps>config_?map))(Ref|KeyRef|Selector|KeySelector|Name)?$"
)
# Fields whose text is a name, and whether the object is cluster-scoped.
_TEXTS: Final = {
    "secretName": ("secrets", False),
    "configMapName": ("configmaps", False),
    "claimName": ("persistentvolumeclaims", False),
    "serviceAccountName": ("serviceaccounts", False),
    "serviceName": ("services", False),
    "priorityClassName": ("priorityclasses.scheduling", True),
    "runtimeClassName": ("runtimeclasses.node", True),
    "storageClassName": ("storageclasses.storage", True),
    "ingressClassName": ("ingressclasses.networking", True),
    "nodeName": ("nodes", True),
    "volumeName": ("persistentvolumes", True),
}
_CLUSTER_SCOPED: Final = frozenset(
    ("clusterroles.rbac", "nodes", "persistentvolumes", "storageclasses.storage", "namespaces")
)
WORKLOADS: Final = frozenset(
    (
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "replicationcontrollers",
        "jobs.batch",
        "cronjobs.batch",
    )
)
# The types of an object's dependents, whose names begin with that of the owner.
CHILDREN: Final = {
    "deployments.apps": ("replicasets.apps",),
    "replicasets.apps": ("pods",),
    "statefulsets.apps": ("pods",),
    "daemonsets.apps": ("pods",),
    "replicationcontrollers": ("pods",),
    "jobs.batch": ("pods",),
    "cronjobs.batch": ("jobs.batch",),
}


class Reference(NamedTuple):
    to: Name
    relation: str  # `mounts or reads`, `is owned by`, ...


def map_at(content: Any, *path: str) -> Document:
    for step in path:
        content = content.get(step) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def text_at(content: Any, *path: str) -> str:
    value = map_at(content, *path[:-1]).get(path[-1])
    return value if isinstance(value, str) else ""


def maps_at(content: Any, *path: str) -> list[Document]:
    value = map_at(content, *path[:-1]).get(path[-1])
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def texts_in(content: Any, *path: str) -> dict[str, str]:
    """A map of texts, such as labels."""
    found = map_at(content, *path)
    return {key: value for key, value in found.items() if isinstance(value, str)}


def template_of(type_: str, content: Document) -> Document:
    """The pod, or the template of one, in an object; empty for a kind that has none."""
    if type_ == "pods":
        return content
    if type_ == "cronjobs.batch":
        return map_at(content, "spec", "jobTemplate", "spec", "template")
    return map_at(content, "spec", "template")


def owners(past: Past, one: Name, content: Document) -> Iterator[Name]:
    for owner in maps_at(content, "metadata", "ownerReferences")[:10]:
        kind, name = text_at(owner, "kind"), text_at(owner, "name")
        type_ = past.type_of_kind(text_at(owner, "apiVersion"), kind)
        if type_ and name:
            yield Name(type_, "" if type_ in _CLUSTER_SCOPED else one.namespace, name)


def references(past: Past, one: Name, content: Document) -> list[Reference]:
    """What an object names, without its owners; each once, in the order of the document."""
    found: dict[Name, str] = {}

    def add(type_: str, namespace: str, name: str, relation: str) -> None:
        if name and len(found) < MAX_REFERENCES:
            found.setdefault(Name(type_, namespace, name), relation)

    spec = {key: value for key, value in content.items() if key not in ("metadata", "status")}
    _walk(past, spec, one.namespace, add)
    template = template_of(one.type, content)
    if map_at(template, "spec") and not text_at(template, "spec", "serviceAccountName"):
        add("serviceaccounts", one.namespace, "default", "runs as")
    if one.type == "persistentvolumes":
        claim = map_at(content, "spec", "claimRef")
        add("persistentvolumeclaims", text_at(claim, "namespace"), text_at(claim, "name"), "is bound to")
    if one.namespace:
        add("namespaces", "", one.namespace, "is in")
    return [Reference(to, relation) for to, relation in found.items() if to != one]


Add = Callable[[str, str, str, str], None]


def _walk(past: Past, content: Any, namespace: str, add: Add) -> None:
    """Without recursion: documents may nest deeper than Python's stack."""
    left: list[tuple[str, Any]] = [("", content)]
    for _ in range(MAX_VISITED):
        if not left:
            return
        field, value = left.pop()
        if isinstance(value, list):
            left.extend((field, item) for item in reversed(value[:MAX_VISITED]))
        elif isinstance(value, dict):
            _add_named(past, field, value, namespace, add)
            left.extend(reversed(list(value.items())[:MAX_VISITED]))
        elif isinstance(value, str) and field in _TEXTS:
            type_, cluster = _TEXTS[field]
            add(type_, "" if cluster else namespace, value, _relation(field))
        elif isinstance(value, str) and (type_ := _type_like(field)):
            add(type_, namespace, value, "names")


def _add_named(past: Past, field: str, value: Document, namespace: str, add: Add) -> None:
    name = text_at(value, "name")
    if (type_ := _NAMED_IN.get(field) or _type_like(field)) and not text_at(value, "kind"):
        add(type_, namespace, name, "reads")
        return
    if not (name and text_at(value, "kind")):
        return
    type_ = past.type_of_kind(text_at(value, "apiVersion"), text_at(value, "kind"))
    if not type_ and text_at(value, "kind") in ("Role", "ClusterRole"):
        type_ = f"{text_at(value, 'kind').lower()}s.rbac"
    if type_:
        where = "" if type_ in _CLUSTER_SCOPED else text_at(value, "namespace") or namespace
        add(type_, where, name, "refers to")


def _type_like(field: str) -> str:
    """The type that a field of a custom kind names, by the end of its name; empty for other fields."""
    found = _NAMED_LIKE.search(field)
    return "" if found is None else "secrets" if found["secrets"] else "configmaps"


def _relation(field: str) -> str:
    return {
        "serviceAccountName": "runs as",
        "nodeName": "runs on",
        "claimName": "mounts",
        "volumeName": "is bound to",
    }.get(field, "names")

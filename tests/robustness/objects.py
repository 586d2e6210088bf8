"""The objects that the traffic writes: a few kinds with different update rules, and contents that can be checked.

Every write has its own token (`<number of the operation>-<bytes of padding>`) in four places of the object: a
label, an annotation, the padding whose length is in the token, and a field of the kind. So a validator knows
which write made an object, and whether all of that write is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

Document = dict[str, Any]

COLORS = ("red", "blue")
FINALIZERS = ("robustness/one", "robustness/two")
PRIORITY = 7  # of a priority class; it can never be changed


class TornObject(Exception):
    """An object that mixes the contents of several writes."""


class Key(NamedTuple):
    plural: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


@dataclass(frozen=True, slots=True)
class Kind:
    plural: str
    kind: str
    api: str  # path prefix of its group and version
    namespaced: bool
    creates_on_update: bool  # a PUT of an object that does not exist creates it
    unconditional: bool  # a PUT needs no resourceVersion

    def collection(self, namespace: str | None) -> str:
        where = f"/namespaces/{namespace}" if self.namespaced and namespace is not None else ""
        return f"{self.api}{where}/{self.plural}"

    def item(self, key: Key) -> str:
        return f"{self.collection(key.namespace)}/{quote(key.name)}"


CONFIG_MAPS = Kind("configmaps", "ConfigMap", "/api/v1", True, False, True)
LEASES = Kind("leases", "Lease", "/apis/coordination.cluster.io/v1", True, True, False)
PRIORITY_CLASSES = Kind(
    "priorityclasses", "PriorityClass", "/apis/scheduling.cluster.io/v1", False, False, True
)
KINDS = {kind.plural: kind for kind in (CONFIG_MAPS, LEASES, PRIORITY_CLASSES)}
TYPES = {
    "configmaps": "configmaps",
    "leases.coordination.cluster.io": "leases",
    "priorityclasses.scheduling.cluster.io": "priorityclasses",
}  # as the journal names them

NAMESPACES = ("default", "cluster-public")  # both exist from the first start on
KEYS = (
    *(Key("configmaps", namespace, f"r{number}") for namespace in NAMESPACES for number in range(6)),
    *(Key("leases", "default", f"r{number}") for number in range(5)),
    *(Key("priorityclasses", "", f"r{number}") for number in range(5)),
)
TEST_KEYS = frozenset(KEYS)  # controllers write other objects at any time


@dataclass(frozen=True, slots=True)
class Content:
    token: str
    color: str
    finalizers: tuple[str, ...] = ()


def make_token(number: int, padding: int) -> str:
    return f"{number}-{padding}"


def _padding(token: str) -> str:
    size = int(token.partition("-")[2])
    return (token * (size // len(token) + 1))[:size]


def document(key: Key, content: Content, version: int | None = None) -> Document:
    """The body of a create or replace."""
    token = content.token
    metadata: Document = {
        "name": key.name,
        "labels": {"color": content.color, "token": token},
        "annotations": {"token": token, "padding": _padding(token)},
    }
    if content.finalizers:
        metadata["finalizers"] = list(content.finalizers)
    if version is not None:
        metadata["resourceVersion"] = str(version)
    return {"metadata": metadata, **_own_fields(key.plural, token)}


def _own_fields(plural: str, token: str) -> Document:
    match plural:
        case "configmaps":
            return {"data": {"token": token}}
        case "leases":
            return {"spec": {"holderIdentity": token}}
        case _:
            return {"value": PRIORITY, "description": token}


def token_of(shown: Document) -> str:
    """The token in an object's label, whether or not the other places agree."""
    token: str = shown["metadata"].get("labels", {}).get("token", "0-0")
    return token


def author_of(shown: Document) -> int:
    """The number of the operation whose token an object has."""
    return int(token_of(shown).partition("-")[0])


def content_of(plural: str, shown: Document) -> Content:
    """The content of an object; TornObject when the four places do not agree."""
    metadata = shown["metadata"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    token = labels.get("token", "")
    whole = (
        token
        and annotations.get("token") == token
        and annotations.get("padding", "") == _padding(token)
        and all(shown.get(field) == value for field, value in _own_fields(plural, token).items())
        and labels.get("color") in COLORS
    )
    if not whole:
        raise TornObject(f"{plural} {metadata.get('name')} is not what one write made: {str(shown)[:600]}")
    return Content(token, labels["color"], tuple(metadata.get("finalizers", ())))


def key_of(plural: str, shown: Document) -> Key:
    return Key(plural, shown["metadata"].get("namespace", ""), shown["metadata"]["name"])


def version_of(shown: Document) -> int:
    return int(shown["metadata"]["resourceVersion"])


def is_deleting(shown: Document) -> bool:
    return "deletionTimestamp" in shown["metadata"]


def bare(shown: Document) -> Document:
    """Without kind and apiVersion, which items of a list and stored objects do not have."""
    return {field: value for field, value in shown.items() if field not in ("kind", "apiVersion")}

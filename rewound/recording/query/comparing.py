"""Compares the objects of two recordings, such as staging and production: `rewound compare`.

Two clusters never have equal objects: versions, uids, addresses, hashes and generated names differ. `plain` leaves out
what servers and controllers set, and `Maps` writes the names of the first recording as the second has them. Objects
that a controller made of another are left out: they follow from their owner, which is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rewound.actors.rewind.difference import Change, difference
from rewound.recording.query.entries import Document, masked_pair

MOST_CHANGES: Final = 200  # of one object
MAPPED: Final = ("namespace", "name", "text")
# Types whose objects follow from others, or say what happened.
LEFT_OUT: Final = frozenset(("events", "leases", "endpoints", "endpointslices", "componentstatuses"))
_GENERATED_NAMES: Final = frozenset(("kube-root-ca.crt",))  # with the certificate of the cluster
_METADATA: Final = frozenset(
    (
        *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
        *("generateName", "deletionTimestamp", "deletionGracePeriodSeconds"),
    )
)
_ADDRESSES: Final = frozenset(
    ("clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "volumeName", "nodeName")
)
_ANNOTATIONS: Final = re.compile(
    r"^(kubectl\.kubernetes\.io/(last-applied-configuration|restartedAt)$|deployment\.\S+/revision$|pv\.|volume\.)"
)
_LABELS: Final = frozenset(("pod-template-hash", "controller-revision-hash"))
_ACCESS: Final = re.compile(r"^(kube-api-access|cluster-api-access|default-token)-[a-z0-9]{5}$")
Key = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class Maps:
    """How names of the first recording are written to compare them with those of the second."""

    namespaces: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def text(self, path: str, value: str) -> str:
        """A text of a document; `path` is the field that it is in."""
        if path == "namespace" and value in self.namespaces:
            return self.namespaces[value]
        if value in self.names:
            return self.names[value]
        for one, other in self.namespaces.items():
            # The names of Services and of accounts have a namespace in them.
            pattern = rf"(?P<before>\.|serviceaccounts?:){re.escape(one)}(?=\.svc(?![a-z0-9-])|:|$)"
            value = re.sub(pattern, rf"\g<before>{other}", value)
        for one, other in self.texts.items():
            value = value.replace(one, other)
        return value

    def key(self, type_name: str, key: Key) -> Key:
        namespace, name = key
        if type_name == "namespaces":
            name = self.namespaces.get(name, name)
        return self.namespaces.get(namespace, namespace), self.names.get(name, self.text("", name))


@dataclass(frozen=True, slots=True)
class Compared:
    """An object that is in one recording only, or differs."""

    type_name: str
    kind: str
    key: Key  # with the names of the second recording
    own: Key  # with those of the recording that has it, or of the first
    sign: str  # - only in the first, + only in the second, ~ in both
    changes: list[Change]


def is_compared(type_name: str) -> bool:
    return type_name.partition(".")[0] not in LEFT_OUT


def is_derived(document: Document) -> bool:
    """Whether a controller made it of another object, or the server for every namespace."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return False
    owners = metadata.get("ownerReferences")
    owned = any(isinstance(one, dict) and one.get("controller") for one in owners or ())
    return owned or metadata.get("name") in _GENERATED_NAMES


def key_of(document: Document) -> Key:
    """Namespace and name; the random end of a generated name is a star."""
    metadata = document["metadata"]
    name, begin = str(metadata["name"]), metadata.get("generateName")
    if isinstance(begin, str) and begin and name.startswith(begin):
        name = f"{begin}*"
    return str(metadata.get("namespace", "")), name


def plain(document: Document, maps: Maps | None = None) -> Document:
    """A copy without what servers and controllers set, and with mapped names."""
    found: Document = {}
    for name, value in document.items():
        if name == "metadata" and isinstance(value, dict):
            found[name] = _plain_metadata(value, maps)
        elif name not in ("status", "kind", "apiVersion"):
            found[name] = _copied(name, value, maps, 0)
    return found


def _plain_metadata(metadata: Document, maps: Maps | None) -> Document:
    kept = {name: value for name, value in metadata.items() if name not in (*_METADATA, "name", "namespace")}
    for name, left_out in (("annotations", _ANNOTATIONS.search), ("labels", _LABELS.__contains__)):
        if isinstance(kept.get(name), dict):
            kept[name] = {key: value for key, value in kept[name].items() if not left_out(key)}
            if not kept[name]:
                del kept[name]
    found: Document = _copied("metadata", kept, maps, 0)
    return found


_DEEPEST: Final = 60  # deeper parts are compared as they are


def _copied(path: str, value: Any, maps: Maps | None, depth: int) -> Any:
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        return {
            key: _copied(key, item, maps, depth + 1)
            for key, item in value.items()
            if key not in _ADDRESSES and not (key == "uid" and path == "ownerReferences")
        }
    if isinstance(value, list):
        return [_copied(path, item, maps, depth + 1) for item in value]
    if isinstance(value, str):
        value = _ACCESS.sub(r"\1-*", value)
        return maps.text(path, value) if maps is not None else value
    return value


def compared(
    type_name: str,
    kind: str,
    first: Iterable[Document],
    second: Iterable[Document],
    maps: Maps,
    *,
    secrets: bool = False,
) -> Iterator[Compared]:
    """What differs among the objects of one type, by name. `secrets`: mask their values."""
    ones = _by_key(first, lambda key: maps.key(type_name, key))
    others = _by_key(second, lambda key: key)
    for key in sorted(ones.keys() | others.keys()):
        if key not in others:
            yield Compared(type_name, kind, key, key_of(ones[key]), "-", [])
        elif key not in ones:
            yield Compared(type_name, kind, key, key, "+", [])
        else:
            pair = plain(ones[key], maps), plain(others[key])
            before, after = masked_pair(*pair) if secrets else pair
            if changes := difference(before, after, most=MOST_CHANGES):
                yield Compared(type_name, kind, key, key_of(ones[key]), "~", changes)


def _by_key(documents: Iterable[Document], key: Any) -> dict[Key, Document]:
    """By name; of objects whose generated names begin the same, the last one."""
    return {key(key_of(one)): one for one in documents if not is_derived(one)}

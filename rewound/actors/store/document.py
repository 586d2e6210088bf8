"""Objects as stored bytes: canonical, escaped JSON without kind and apiVersion, metadata in a fixed order.

State rows, events, lists and gets all share these bytes. A response with a single object puts its type in front
(`{"kind":…,"apiVersion":…,` + body without its first brace), so no read parses the object. Objects of custom kinds
start with an apiVersion: the version that they were written in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.selectors.facts import FIELD, LABEL, pack

if TYPE_CHECKING:  # commands that only show objects use this module too
    from rewound.actors.kinds.declaration.definition import Definition
    from rewound.actors.messages import Object

# The members of metadata. Only strings precede the version.
_USUAL_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def facts_of(storage: Definition, stored: Object) -> bytes:
    """The packed facts of an object, which selectors and the garbage collector read instead of parsing it."""
    metadata = stored["metadata"]
    labels: list[str | int] = []
    if metadata.get("labels"):
        for key, value in metadata["labels"].items():
            labels += (key, LABEL, value)
    fields: tuple[str | int, ...]
    if storage.namespaced:
        namespace = metadata["namespace"]
        fields = "metadata.name", FIELD, metadata["name"], "metadata.namespace", FIELD, namespace
    else:
        fields = "metadata.name", FIELD, metadata["name"]
    if storage.selection.fields:
        fields = (*_selectable(storage, stored), *fields)
    owners = [owner["uid"] for owner in metadata["ownerReferences"]] if "ownerReferences" in metadata else ()
    return pack((labels, fields, metadata["uid"], owners))


def _selectable(storage: Definition, stored: Object) -> list[str | int]:
    """The kind's own fields that field selectors can use."""
    fields: list[str | int] = []
    for field, read in storage.selection.fields.items():
        if value := read(stored):
            fields += (field, FIELD, value)
    return fields


def encode(stored: Object, offset: int, api_version: str = "") -> bytes:
    """The object's bytes at a version. Offset 0 is a dry-run create, which has only the version that the client sent.

    `api_version` is for custom kinds.
    """
    unversioned = encode_unversioned(stored, api_version)
    if offset:
        return at_version(unversioned, offset)
    sent = stored["metadata"].get("resourceVersion")
    if sent is None:
        return without_empty_version(unversioned)
    return unversioned.replace(EMPTY_VERSION, b'"resourceVersion":' + dumps(sent), 1)


def encode_unversioned(stored: Object, api_version: str = "") -> bytes:
    """The object's bytes with an empty resourceVersion, which `at_version` fills in."""
    metadata = stored["metadata"]
    template = _templates.get(tuple(metadata))
    ordered = _ordered(metadata) if template is None else {**template, **metadata}
    ordered["resourceVersion"] = ""
    # metadata comes before all other members, wherever it is in `stored`.
    if api_version:
        document = {"apiVersion": api_version, "metadata": ordered, **stored}
    else:
        document = {"metadata": ordered, **stored}
    document["metadata"] = ordered
    return dumps(document)


def at_version(unversioned: bytes, offset: int) -> bytes:
    """Insert the version. The first match is correct: only strings precede it in metadata, and they escape quotes."""
    versioned = unversioned.replace(EMPTY_VERSION, b'"resourceVersion":"%d"' % offset, 1)
    if versioned is unversioned:
        raise ValueError("the object has no empty version to fill in")
    return versioned


def without_version(body: bytes, offset: int) -> bytes:
    """Turn the object's bytes at a version into those of `encode_unversioned`."""
    return body.replace(b'"resourceVersion":"%d"' % offset, EMPTY_VERSION, 1)


def without_empty_version(unversioned: bytes) -> bytes:
    """The object's bytes without a resourceVersion. It is never the last member."""
    return unversioned.replace(EMPTY_VERSION + b",", b"", 1)


EMPTY_VERSION = b'"resourceVersion":""'  # `at_version` fills it in


def _ordered(metadata: Object) -> Object:
    """The members of metadata in the order of stored objects, with a resourceVersion."""
    present = {**metadata, "resourceVersion": ""}
    ordered = {name: present[name] for name in _USUAL_ORDER if name in present}
    if len(ordered) == len(present):  # no other members
        if len(_templates) >= MAX_TEMPLATES:
            _templates.clear()
        _templates[tuple(metadata)] = dict.fromkeys(ordered)
    return ordered


# Stored order by the order that the members have in an object, because most objects have the same members.
_templates: dict[tuple[str, ...], dict[str, None]] = {}
MAX_TEMPLATES = 256


def in_usual_order(metadata: Object) -> Object:
    """Metadata in the order of stored objects, with a resourceVersion if it has one."""
    return {key: metadata[key] for key in _USUAL_ORDER if key in metadata}


def version_of(body: bytes) -> int:
    """The version in an object's bytes; 0 if it has none, or one that a client sent with a dry-run create.

    The first match is correct: only strings precede it in metadata, and they escape quotes.
    """
    start = body.find(_VERSION) + len(_VERSION)
    if start < len(_VERSION):
        return 0
    try:
        return int(body[start : body.index(b'"', start)] or 0)
    except ValueError:
        return 0


_VERSION = b'"resourceVersion":"'


def decode(body: bytes) -> Object:
    parsed: Object = orjson.loads(body)
    return parsed


def api_version_of(body: bytes) -> str:
    """The version of an object of a custom kind; "" for other kinds, whose stored bytes do not contain it."""
    if not body.startswith(_API_VERSION):
        return ""
    return body[len(_API_VERSION) : body.index(b'"', len(_API_VERSION))].decode()


def with_api_version(body: bytes, api_version: str) -> bytes:
    """The same object under another version."""
    rest = body.index(b'"', len(_API_VERSION)) if body.startswith(_API_VERSION) else 0
    return version_head(api_version) + (body[rest + 2 :] if rest else body[1:])


def version_head(api_version: str) -> bytes:
    """The first bytes of an object in this version."""
    return _API_VERSION + api_version.encode() + b'",'


_API_VERSION = b'{"apiVersion":"'  # groups and versions have no characters that JSON escapes


_STRING = rb'"(?:[^"\\]|\\.)*"'
# metadata up to its deletionTimestamp, which precedes all members with arbitrary names.
_UP_TO_DELETION = re.compile(
    rb'{(?:"apiVersion":S,)?"metadata":{"name":S,(?:"generateName":S,)?(?:"namespace":S,)?(?:"selfLink":S,)?"uid":S,"resourceVersion":S,'
    rb'(?:"generation":[0-9]+,)?"creationTimestamp":(?:S|null)(,"deletionTimestamp":")?'.replace(
        b"S", _STRING
    )
)
_DELETION_TIMESTAMP = b'"deletionTimestamp":'


def is_being_deleted(body: bytes) -> bool:
    """Whether a stored object has a deletionTimestamp. Parses it only if its order is unusual: it may be large."""
    if body.find(_DELETION_TIMESTAMP) < 0:  # not `in`, which costs an exception
        return False
    found = _UP_TO_DELETION.match(body)
    if found is None:
        return "deletionTimestamp" in decode(body)["metadata"]
    return found[1] is not None


def typed(prefix: bytes, body: bytes) -> bytes:
    """The whole document of one object; `prefix` is from `type_prefix`."""
    return prefix + body[1:]


def kind_prefix(kind: str) -> bytes:
    """The start of an object that already has an apiVersion."""
    return b'{"kind":' + dumps(kind) + b","


def type_prefix(kind: str, api_version: str) -> bytes:
    return b'{"kind":' + dumps(kind) + b',"apiVersion":' + dumps(api_version) + b","

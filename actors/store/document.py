"""Objects as stored bytes: canonical JSON without kind and apiVersion, metadata in its usual order.

State rows, events, lists and gets all share these bytes. A response with a single object puts its type in front
(`{"kind":…,"apiVersion":…,` + body without its first brace), so no read parses the object.
"""

from __future__ import annotations

import re

import orjson

from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.decoder import Schema, member_at, put_at
from actors.messages import Object
from actors.selectors.facts import pack_facts

# The members of metadata before and after resourceVersion.
_BEFORE_VERSION = ("name", "generateName", "namespace", "selfLink", "uid")
_AFTER_VERSION = (
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


def null_empty_lists(schema: Schema, decoded: Object) -> None:
    """Replace an empty list by null where the wire format always contains the list."""
    for path in schema.shown_lists:
        if member_at(decoded, path) == []:
            put_at(decoded, path, None)


def facts_of(storage: Definition, stored: Object) -> bytes:
    """The packed facts of an object, which selectors and the garbage collector read instead of parsing it."""
    metadata, readers = stored["metadata"], storage.selection.fields
    fields = {label: read(stored) for label, read in readers.items()} if readers else {}
    owners = metadata.get("ownerReferences", ())
    fields["metadata.name"] = metadata["name"]
    if storage.namespaced:
        fields["metadata.namespace"] = metadata["namespace"]
    return pack_facts(
        metadata.get("labels") or {},
        fields,
        metadata["uid"],
        [owner["uid"] for owner in owners] if owners else (),
    )


def encode(stored: Object, offset: int) -> bytes:
    """The object's bytes at a version; offset 0 is a dry run's create, which has no version."""
    return _encode(stored, str(offset) if offset else None)


def encode_unversioned(stored: Object) -> bytes:
    """The object's bytes with an empty resourceVersion, which `at_version` fills in."""
    return _encode(stored, "")


def at_version(unversioned: bytes, offset: int) -> bytes:
    """Insert the version. The first match is right: only strings precede it in metadata, and they escape quotes."""
    position = unversioned.index(_EMPTY_VERSION) + _VALUE_POSITION
    return b"%b%d%b" % (unversioned[:position], offset, unversioned[position:])


_EMPTY_VERSION = b'"resourceVersion":""'
_VALUE_POSITION = len(_EMPTY_VERSION) - 1


def _encode(stored: Object, version: str | None) -> bytes:
    metadata = stored["metadata"]
    ordered = {key: metadata[key] for key in _BEFORE_VERSION if key in metadata}
    if version is not None:
        ordered["resourceVersion"] = version
    for key in _AFTER_VERSION:
        if key in metadata:
            ordered[key] = metadata[key]
    document = {"metadata": ordered, **stored}  # metadata is the first member, whatever its place in `stored`
    document["metadata"] = ordered
    return orjson.dumps(document)


def version_of(body: bytes) -> int:
    """The version in an object's bytes, 0 without one, as in the response to a dry run of a create.

    The first match is right: only strings precede it in metadata, and they escape quotes.
    """
    start = body.find(_VERSION) + len(_VERSION)
    if start < len(_VERSION):
        return 0
    return int(body[start : body.index(b'"', start)] or 0)


_VERSION = b'"resourceVersion":"'


def decode(body: bytes) -> Object:
    parsed: Object = orjson.loads(body)
    return parsed


_STRING = rb'"(?:[^"\\]|\\.)*"'
# metadata up to its deletionTimestamp, which comes before all that may have any names.
_UP_TO_DELETION = re.compile(
    rb'{"metadata":{"name":S,(?:"generateName":S,)?(?:"namespace":S,)?(?:"selfLink":S,)?"uid":S,"resourceVersion":S,'
    rb'(?:"generation":[0-9]+,)?"creationTimestamp":(?:S|null)(,"deletionTimestamp":")?'.replace(
        b"S", _STRING
    )
)
_DELETION_TIMESTAMP = b'"deletionTimestamp":'


def is_being_deleted(body: bytes) -> bool:
    """Whether a stored object has a deletionTimestamp. Parses only what is not in the usual order: it may be large."""
    if _DELETION_TIMESTAMP not in body:
        return False
    found = _UP_TO_DELETION.match(body)
    if found is None:
        return "deletionTimestamp" in decode(body)["metadata"]
    return found[1] is not None


def typed(prefix: bytes, body: bytes) -> bytes:
    """The whole document of one object; `prefix` is from `type_prefix`."""
    return prefix + body[1:]


def type_prefix(kind: str, api_version: str) -> bytes:
    return b'{"kind":' + orjson.dumps(kind) + b',"apiVersion":' + orjson.dumps(api_version) + b","

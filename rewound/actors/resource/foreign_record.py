"""Whether an object that somebody else wrote to etcd is one that this server could have stored.

`actors.store.etcd.foreign` asks. The object must be of a known kind, decode by its schema, and be the one that its key
names. Defaults, validation and admission are for requests only: whoever writes past the API writes the object as it is
stored, such as a record of a backup.
"""

from __future__ import annotations

from typing import Any

import orjson

from rewound.actors.errors import RequestError
from rewound.actors.kinds.catalog import StoredType
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.kinds.schema.decoder import NotDecodable, Unrecognized
from rewound.actors.messages import Object
from rewound.actors.store.document import encode_unversioned, facts_of
from rewound.actors.store.etcd.foreign import NotKnownYet
from rewound.actors.store.etcd.records import Unreadable
from rewound.journal.log import Journal


class ForeignRecords:
    def __init__(self, registry: Registry, journal: Journal, declared_by: str) -> None:
        """`declared_by`: the type whose objects declare types, each the one that has its name."""
        self._registry, self._journal, self._declared_by = registry, journal, declared_by

    def check(self, type_name: str, namespace: str, name: str, body: bytes) -> tuple[bytes, bytes]:
        """Facts and body of the object as this server stores them. Raises Unreadable, or NotKnownYet."""
        stored_type = self._find_type(type_name)
        document = _parse(body)
        _check_names(document, stored_type.storage, namespace, name)
        definition = _definition(stored_type, document)
        try:
            problems = definition.schema.decode_object(_parse(body), defaults=False).problems
        except (NotDecodable, Unrecognized, RequestError) as error:
            raise Unreadable(str(error)) from None
        if problems:
            raise Unreadable(f"it has what its kind does not have: {problems[0]}")
        document.pop("kind", None)
        api_version = document.pop("apiVersion", "")
        stored_version = "" if definition.custom is None else api_version
        try:
            return facts_of(stored_type.storage, document), encode_unversioned(document, stored_version)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Unreadable(f"it lacks what every object of its kind has ({error})") from None

    def _find_type(self, type_name: str) -> StoredType:
        found = self._registry.current.stored_type(type_name)
        if found is not None and found.storage.is_stored:
            return found
        if self._journal.body(self._journal.type_id(self._declared_by), "", type_name) is not None:
            raise NotKnownYet(f"the custom kind {type_name} is not established")
        raise Unreadable(f"no kind is stored as {type_name}")


def _parse(body: bytes) -> Object:
    try:
        found: Any = orjson.loads(body)
    except ValueError:
        raise Unreadable("its body is not JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        raise Unreadable("its body is no object with metadata")
    return found


def _check_names(document: Object, storage: Definition, namespace: str, name: str) -> None:
    metadata = document["metadata"]
    if (metadata.get("name"), metadata.get("namespace", "")) != (name, namespace):
        raise Unreadable("metadata.name or metadata.namespace is not that of its key")
    if storage.namespaced != bool(namespace) or storage.check_name(name, False):
        raise Unreadable("its kind has no such namespace or name")
    for field in ("uid", "creationTimestamp"):
        if not metadata.get(field) or not isinstance(metadata[field], str):
            raise Unreadable(f"it has no metadata.{field}")


def _definition(stored_type: StoredType, document: Object) -> Definition:
    """The definition of the version that the object is in."""
    if stored_type.storage.custom is None:
        return stored_type.storage
    wanted = document.get("apiVersion")
    found = next((one for one in stored_type.definitions if one.api_version == wanted), None)
    if found is None:
        raise Unreadable("its apiVersion is not one of its kind")
    return found

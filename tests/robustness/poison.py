"""Objects that no server of this version would store, written into a journal below the API.

An older or a foreign writer may have stored anything: values of the wrong type, numbers beyond their range, times that
are none, documents that nest too deep, bytes that are no JSON. `poisons` derives such objects of every kind from the
specimens of the kinds, one change each; `write` appends them to the journal of a server that does not run.

Every third case is `held_back`: whoever mends the server does not look at these before the end.
"""

from __future__ import annotations

import copy
import random
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.catalog import Catalog, StoredType
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from rewound.actors.selectors.facts import FIELD, LABEL, pack
from rewound.actors.store.document import EMPTY_VERSION, encode_unversioned
from rewound.journal import Event, Journal
from tests.gateway.describe.specimens import key, specimens

Path_ = tuple[str | int, ...]
TIME = "2026-01-01T00:00:00Z"
# The ends of the cases whose bytes are no object in JSON, or not in JSON that most clients can read.
NOT_OBJECTS = (
    *("bytes: no JSON", "bytes: empty", "bytes: null", "bytes: list", "bytes: text", "bytes: no UTF-8"),
    *("bytes: 5000 levels", "bytes: infinite number", "bytes: not a number", "bytes: empty object"),
)
# In place of any value.
WRONG: tuple[tuple[str, Any], ...] = (
    ("null", None),
    ("true", True),
    ("text", "poison"),
    ("empty", ""),
    ("number", 7),
    ("negative", -5),
    ("huge", 2**63),
    ("beyond", 2**64 - 1),
    ("fraction", 1.5),
    ("infinite", 1e300),
    ("list", ["poison"]),
    ("list of null", [None]),
    ("list of maps", [{}]),
    ("map", {"poison": "poison"}),
    ("map of null", {"poison": None}),
    ("empty map", {}),
    ("empty list", []),
    ("year 0", "0000-00-00T00:00:00Z"),
    ("year 10000", "10000-01-01T00:00:00Z"),
    ("year 9999", "9999-12-31T23:59:59Z"),
    ("quantity", "1e400"),
    ("small quantity", "-1n"),
    ("expression", "((("),
    ("long", "x" * 70_000),
    ("surrogate", "\x00￿"),
)
REFERENCE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}
OWNED = {"f:metadata": {"f:labels": {".": {}}}}
METADATA: tuple[tuple[Path_, Any], ...] = (
    (("labels",), {"app": 7}),
    (("labels",), {"app": None, "tier": ["front"]}),
    (("annotations",), {"a": {"b": []}}),
    (("ownerReferences",), [{**REFERENCE, "uid": 7}]),
    (("ownerReferences",), [{**REFERENCE, "controller": "yes", "apiVersion": 7}]),
    (("ownerReferences",), [{"uid": None}]),
    (("ownerReferences",), [{**REFERENCE, "apiVersion": "a/b/c", "kind": "//"}]),
    (("finalizers",), [7]),
    (("finalizers",), [None, "foregroundDeletion"]),
    (("finalizers",), {"foregroundDeletion": True}),
    (("deletionTimestamp",), "0000-00-00T00:00:00Z"),
    (("deletionTimestamp",), 7),
    (("deletionTimestamp",), None),
    (("deletionTimestamp",), TIME),
    (("deletionGracePeriodSeconds",), "soon"),
    (("deletionGracePeriodSeconds",), 2**63),
    (("creationTimestamp",), "99999-01-01T00:00:00Z"),
    (("creationTimestamp",), "0000-00-00T00:00:00Z"),
    (("creationTimestamp",), 7),
    (("creationTimestamp",), None),
    (("generation",), "first"),
    (("generation",), -(2**63)),
    (("generateName",), 7),
    (("uid",), 7),
    (("uid",), None),
    (("uid",), ""),
    (("name",), 7),
    (("name",), "another"),
    (("namespace",), 7),
    (("namespace",), "elsewhere"),
    (("managedFields",), [{"manager": 7, "fieldsV1": []}]),
    (
        ("managedFields",),
        [{"manager": "a", "operation": "Apply", "fieldsV1": {"f:": 7, "k:{": {}, "v:": {}}}],
    ),
    (("managedFields",), "poison"),
    (("resourceVersion",), 7),
    (("resourceVersion",), "poison"),
    (("resourceVersion",), None),
)


class Poison(NamedTuple):
    case: str  # what is wrong, for people
    type_name: str
    namespace: str
    name: str
    body: bytes  # with an empty resourceVersion, if it has one

    @property
    def held_back(self) -> bool:
        return zlib.crc32(self.case.encode()) % 3 == 0


def storage_of(catalog: Catalog, names: Names) -> Iterator[tuple[StoredType, dict[str, Any]]]:
    """Every stored type with an object of it, as it is stored."""
    made = specimens(names)
    for type_name in catalog.stored_types():
        stored = catalog.stored_type(type_name)
        if stored is None or not stored.storage.is_stored:
            continue
        yield stored, _stored_specimen(stored, made)


def _stored_specimen(stored: StoredType, made: dict[str, Any]) -> dict[str, Any]:
    for definition in (stored.storage, *stored.definitions):
        if key(definition) in made:
            document = copy.deepcopy(made[key(definition)])
            return definition.schema.decode_object(document, defaults=True).object
    return {"metadata": {}}


def poisons(catalog: Catalog, names: Names, count: int, seed: int = 0) -> list[Poison]:
    """About `count` objects of each kind: all changes of metadata and of the whole, and random ones of the rest."""
    found: list[Poison] = []
    for stored, specimen in storage_of(catalog, names):
        found += _of_kind(
            stored.storage, specimen, count, random.Random(f"{seed} {stored.storage.type_name}")
        )
    return found


def _of_kind(
    definition: Definition, specimen: dict[str, Any], count: int, rng: random.Random
) -> list[Poison]:
    changes = [(path, str(value)[:60], value) for path, value in _metadata_changes()]
    whole = [(path, text, value) for path in _paths(specimen, 1) for text, value in WRONG]
    deep = [(path, text, value) for path in _paths(specimen) for text, value in WRONG]
    chosen = [rng.sample(some, min(count // 3, len(some))) for some in (changes, whole, deep)]
    found = []
    for path, text, value in (one for some in chosen for one in some):
        case = f"{definition.type_name} {'.'.join(map(str, path)) or 'object'} = {text}"
        found.append(made(definition, specimen, case, len(found), path, value))
    for text, body in BODIES:
        found.append(_placed(definition, f"{definition.type_name} bytes: {text}", len(found), body))
    return found


def _metadata_changes() -> Iterator[tuple[Path_, Any]]:
    for path, value in METADATA:
        yield ("metadata", *path), value
    for name in ("labels", "annotations", "ownerReferences", "finalizers", "managedFields"):
        for _, value in WRONG[:16]:
            yield ("metadata", name), value


def _paths(value: Any, levels: int = 100, around: Path_ = ()) -> list[Path_]:
    if not levels:
        return []
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    found: list[Path_] = []
    for name, member in members:
        found += [(*around, name), *_paths(member, levels - 1, (*around, name))]
    return found


def _nested(levels: int, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    return opening * levels + b"1" + closing * levels


_HEAD = (
    b'{"metadata":{"name":"NAME","namespace":"default","uid":"uid-NAME","resourceVersion":"","creationTimestamp":"%b"}'
    % TIME.encode()
)
BODIES: tuple[tuple[str, bytes], ...] = (
    ("no JSON", b'{"metadata":{"name":'),
    ("empty", b""),
    ("null", b"null"),
    ("list", b"[]"),
    ("text", b'"poison"'),
    ("empty object", b"{}"),
    ("metadata null", b'{"metadata":null}'),
    ("metadata text", b'{"metadata":"poison"}'),
    ("metadata list", b'{"metadata":[]}'),
    ("metadata empty", b'{"metadata":{}}'),
    ("no UTF-8", _HEAD + b',"spec":"\xff\xfe"}'),
    ("650 levels", _HEAD + b',"spec":' + _nested(650) + b"}"),
    ("650 levels of lists", _HEAD + b',"status":' + _nested(650, b"[", b"]") + b"}"),
    ("5000 levels", _HEAD + b',"spec":' + _nested(5000) + b"}"),
    ("infinite number", _HEAD + b',"spec":{"replicas":1e400},"value":1e400}'),
    ("not a number", _HEAD + b',"spec":{"replicas":NaN}}'),
    ("only metadata", _HEAD + b"}"),
    ("unknown fields", _HEAD + b',"spec":{"unknown":{"a":[1]}},"poison":true}'),
    ("twice", _HEAD + b',"spec":{},"spec":7,"metadata":7}'),
)


def made(
    definition: Definition, specimen: dict[str, Any], case: str, number: int, path: Path_, value: Any
) -> Poison:
    document = copy.deepcopy(specimen)
    name = _name(definition, number)
    metadata = {**document.get("metadata", {}), "name": name, "uid": f"uid-{name}", "creationTimestamp": TIME}
    if definition.namespaced:
        metadata["namespace"] = "default"
    document["metadata"] = metadata
    body = _encoded(_replaced(document, path, value))
    return Poison(case, definition.type_name, "default" if definition.namespaced else "", name, body)


def _placed(definition: Definition, case: str, number: int, body: bytes) -> Poison:
    name = _name(definition, number)
    body = body.replace(b"NAME", name.encode())
    if not definition.namespaced:
        body = body.replace(b'"namespace":"default",', b"")
    return Poison(case, definition.type_name, "default" if definition.namespaced else "", name, body)


def _name(definition: Definition, number: int) -> str:
    return (
        f"poison-{number}"
        if definition.plural != "customresourcedefinitions"
        else f"poison{number}.example.com"
    )


def _replaced(document: Any, path: Path_, value: Any) -> Any:
    if not path:
        return value
    made = copy.copy(document)
    made[path[0]] = _replaced(made[path[0]] if path[1:] else None, path[1:], value)
    return made


def _encoded(document: Any) -> bytes:
    if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
        version = document["metadata"].get("resourceVersion", "")
        body = encode_unversioned(document)
        return (
            body if version == "" else body.replace(EMPTY_VERSION, b'"resourceVersion":' + dumps(version), 1)
        )
    return dumps(document)


def facts(poison: Poison) -> bytes:
    """The facts that its writer may have stored: labels and owners as far as they have the right types."""
    try:
        document = orjson.loads(poison.body)
    except ValueError:
        document = None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    labels: list[Any] = []
    if isinstance(metadata.get("labels"), dict):
        for name, value in metadata["labels"].items():
            labels += (name, LABEL, str(value))
    fields: list[Any] = ["metadata.name", FIELD, poison.name]
    if poison.namespace:
        fields += ["metadata.namespace", FIELD, poison.namespace]
    owners = metadata.get("ownerReferences")
    uids = [one.get("uid") for one in owners if isinstance(one, dict)] if isinstance(owners, list) else []
    uid = metadata.get("uid")
    return pack(
        (labels, fields, uid if isinstance(uid, str) else "", [one for one in uids if isinstance(one, str)])
    )


def write(folder: Path, poisons: Sequence[Poison], dialect: str = "cluster") -> None:
    """Append them to the journal of a data folder, one commit."""
    journal = Journal.open(folder, dialect=dialect)
    try:
        journal.register_types({one.type_name: None for one in poisons})
        journal.append([_event(journal, number, one) for number, one in enumerate(poisons, journal.head + 1)])
    finally:
        journal.close()


def _event(journal: Journal, offset: int, poison: Poison) -> Event:
    with journal.read() as view:
        row = view.get(journal.type_id(poison.type_name), poison.namespace, poison.name)
    return Event(
        offset=offset,
        type_id=journal.type_id(poison.type_name),
        verb="create" if row is None else "update",
        namespace=poison.namespace,
        name=poison.name,
        previous=0 if row is None else row.offset,
        removed=False,
        time=1_767_225_600_000_000 + offset,
        user="foreign",
        manager="foreign",
        facts=facts(poison),
        body=poison.body.replace(EMPTY_VERSION, b'"resourceVersion":"%d"' % offset, 1),
    )

"""Whether a stored object has the form that its kind has in storage, and how to bring it into that form.

A server checks what clients write, so what it stores has this form. An older or a foreign writer may have stored
anything. Nobody checks objects when they are read: that would cost more than the read. Whoever fails on a stored object
asks here: `misfit` names the first value that does not fit, `mended` replaces such values by those of an empty object.
Code that acts on objects by itself, such as controllers, leaves misfits out; it must not act on a mended object, which
lacks what its author wrote. Only what a client asks for is done to the mended object: it is shown, changed, deleted.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import orjson

from rewound.actors.golang.json import DEEPEST
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.schema.fields import (
    MICRO_TIME,
    NOTHING,
    STRING,
    TIME,
    Field,
    ListOf,
    MapOf,
    Struct,
    StructOr,
    Type,
    absent_value,
    zero_struct,
)
from rewound.actors.kinds.schema.scalars import read_scalar
from rewound.actors.messages import Object

# What code raises that reads an object of another form than it expects. Nothing else may be taken for a misfit.
OF_MISFITS: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
# Of objects that have none that can be read.
EPOCH: Final = "1970-01-01T00:00:00Z"
# The fields that every owner reference has.
_OF_OWNERS: Final = frozenset(("apiVersion", "kind", "name", "uid"))


def misfit(definition: Definition, namespace: str, name: str, body: bytes) -> str:
    """Why a stored object does not have the form of its kind; empty if it has."""
    try:
        document = orjson.loads(body)
    except ValueError as error:
        return f"its bytes are no JSON that can be read: {error}"
    fitting = _Fitting()
    fitting.whole(definition, document, namespace, name)
    return fitting.problem


def misfit_read(definition: Definition, namespace: str, name: str, body: bytes, stored: Object) -> str:
    """`misfit`, of an object that is read already: fast for those that fit, for code that reads all objects."""
    metadata = stored["metadata"]
    if (
        definition.schema.is_canonical(body)
        and metadata.get("name") == name
        and metadata.get("namespace", "") == namespace
        and metadata.get("uid")
        and isinstance(metadata.get("creationTimestamp"), str)
        and "resourceVersion" in metadata
        and isinstance(metadata.get("deletionTimestamp", ""), str)
        and all(map(_OF_OWNERS.issubset, metadata.get("ownerReferences", ())))
        and definition.always_present.issubset(stored)
    ):
        return ""
    return misfit(definition, namespace, name, body)


def mended(definition: Definition, namespace: str, name: str, body: bytes, *, empty: bool = False) -> Object:
    """The object without what does not fit. `empty`: only its metadata, because its kind cannot read the rest.

    Its name and namespace are those of its key, if these are given.
    """
    try:
        document = orjson.loads(body)
    except ValueError:
        document = {}
    if empty:
        document = {"metadata": document.get("metadata")} if isinstance(document, dict) else {}
    return mended_document(definition, namespace, name, document)


def mended_document(definition: Definition, namespace: str, name: str, document: Any) -> Object:
    """`mended`, of an object that is read already. With defaults, on which code of the kind relies."""
    found = _Fitting().whole(definition, document, namespace, name)
    if not definition.is_custom:
        with suppress(*OF_MISFITS, NotDecodable):
            found = definition.schema.decode_object(found).object
    metadata = found["metadata"]
    metadata.setdefault("uid", "")
    if definition.has_status:
        metadata.setdefault("generation", 1)
    return found


class _Fitting:
    """Fits one object. `problem` is the first value that does not fit."""

    def __init__(self) -> None:
        self.problem = ""

    def whole(self, definition: Definition, document: Any, namespace: str, name: str) -> Object:
        struct = definition.fields
        if isinstance(document, dict) and _is_too_deep(document):
            self._report("", f"nests deeper than {DEEPEST} levels")
            document = {key: _shallow(value) for key, value in document.items()}
        found: Object = self._struct(struct, document, "")
        for field in struct.fields:
            if field.name not in found and isinstance(field.type, Struct) and field.always_present:
                self._report(field.name, "is missing")
                found[field.name] = zero_struct(field.type, defaults=False)
        self._names(found["metadata"], definition, namespace, name)
        return found

    def _names(self, metadata: Object, definition: Definition, namespace: str, name: str) -> None:
        wanted = {"name": name} if name else {}
        if definition.namespaced and namespace:
            wanted["namespace"] = namespace
        for key, value in wanted.items():
            if metadata.get(key) != value:
                self._report(f"metadata.{key}", "is not that of its key")
                metadata[key] = value
        if not metadata.get("uid"):
            self._report("metadata.uid", "is missing")
            metadata["uid"] = ""
        if "resourceVersion" not in metadata and namespace + name:
            self._report("metadata.resourceVersion", "is missing")
        if "creationTimestamp" not in metadata:
            self._report("metadata.creationTimestamp", "is missing")
            metadata["creationTimestamp"] = EPOCH

    def _struct(self, struct: Struct, value: Any, path: str) -> Object:
        if not isinstance(value, dict):
            self._report(path, "is no object")
            return zero_struct(struct, defaults=False)
        found: Object = {}
        for name, member in value.items():
            field = struct.by_name.get(name)
            if field is None:
                found[name] = member  # of another version of the kind; this one does not read it
                continue
            fitted = self._member(field, member, f"{path}.{name}" if path else name)
            if fitted is NOTHING:
                fitted = absent_value(field, defaults=False)
            if fitted is not NOTHING:
                found[name] = fitted
        if path.startswith("metadata."):
            self._require(struct, found, path)
        return found

    def _require(self, struct: Struct, found: Object, path: str) -> None:
        """In metadata, which all code reads, every field is there that Go's JSON cannot omit."""
        for field in struct.fields:
            if field.always and field.name not in found:
                self._report(f"{path}.{field.name}", "is missing")
                found[field.name] = absent_value(field, defaults=False)

    def _member(self, field: Field, value: Any, path: str) -> Any:
        if value is None and (field.always or (field.type in (TIME, MICRO_TIME) and not field.pointer)):
            return None
        return self._value(field.type, value, path)

    def _value(self, type_: Type, value: Any, path: str) -> Any:
        """The value as it fits; NOTHING if it does not."""
        if type_ is STRING:
            if type(value) is str:
                return value
        elif isinstance(type_, Struct):
            if isinstance(value, dict):
                return self._struct(type_, value, path)
        elif isinstance(type_, ListOf):
            if type(value) is list:
                items = [self._value(type_.item, item, f"{path}[{at}]") for at, item in enumerate(value)]
                return [item for item in items if item is not NOTHING]
        elif isinstance(type_, MapOf):
            if isinstance(value, dict):
                members = {
                    key: self._value(type_.value, item, f"{path}.{key}") for key, item in value.items()
                }
                return {key: item for key, item in members.items() if item is not NOTHING}
        elif isinstance(type_, StructOr):
            return self._value(type_.struct if isinstance(value, dict) else type_.other, value, path)
        elif self._is_scalar(type_, value):
            return value
        self._report(path, "is null" if value is None else f"is no {_named(type_)}")
        return NOTHING

    def _is_scalar(self, type_: Any, value: Any) -> bool:
        try:
            return read_scalar(type_, value) is not None
        except OF_MISFITS:
            return False

    def _report(self, path: str, why: str) -> None:
        if not self.problem:
            self.problem = f"{path[:200] or 'it'} {why}"


def _named(type_: Type) -> str:
    if isinstance(type_, Struct | MapOf | StructOr):
        return "object"
    return "list" if isinstance(type_, ListOf) else type_.name


def _is_too_deep(value: Any, levels: int = DEEPEST) -> bool:
    level = [value]
    for _ in range(levels):
        members = [one.values() if type(one) is dict else one for one in level]
        level = [one for many in members for one in many if type(one) is dict or type(one) is list]
        if not level:
            return False
    return True


def _shallow(value: Any) -> Any:
    """A member of a document that nests too deep, without its own members that do."""
    if not isinstance(value, dict):
        return None if isinstance(value, list) and _is_too_deep(value, DEEPEST - 1) else value
    return {key: item for key, item in value.items() if not _nests_too_deep(item)}


def _nests_too_deep(value: Any) -> bool:
    return isinstance(value, dict | list) and _is_too_deep(value, DEEPEST - 2)

"""The definition of one version of a custom kind. Its schema is parsed and compiled on first use.

A server may have thousands of custom kinds and use few of them, so that a definition keeps the stored bytes of its
CustomResourceDefinition instead of the parsed schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors.background_import import is_imported
from actors.kinds.declaration.definition import CustomKind, Definition
from actors.kinds.schema.decoder import Schema
from actors.kinds.schema.fields import CustomStruct, Struct
from actors.lazy_property import lazy_property
from actors.messages import Object
from actors.names import Names

if TYPE_CHECKING:  # loaded with the first custom kind that is used
    from actors.kinds.structural.compile import Compiled


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """Where the schema of a version is."""

    body: bytes  # of the CustomResourceDefinition
    version: str
    api_version: str
    kind: str
    names: Names

    def parse(self) -> Object:
        """The schema; an open one for a version without a schema, which older servers could store."""
        for version in orjson.loads(self.body)["spec"]["versions"]:
            if version["name"] == self.version and "openAPIV3Schema" in version.get("schema", {}):
                schema: Object = version["schema"]["openAPIV3Schema"]
                return schema
        return {"type": "object", f"{self.names.extension_prefix}preserve-unknown-fields": True}


class LazySchema:
    """A schema that is compiled on first use. Its methods are the functions of a strategy."""

    def __init__(self, source: SchemaSource) -> None:
        self.source = source

    @lazy_property
    def compiled(self) -> Compiled:
        from actors.kinds.structural.compile import compile_schema

        source = self.source
        return compile_schema(
            source.parse(), api_version=source.api_version, kind=source.kind, names=source.names
        )

    def openapi(self) -> Object:
        """The schema as it was written. It is not kept: documents are made once."""
        compiled: Compiled | None = self.__dict__.get("compiled")
        return self.source.parse() if compiled is None else compiled.openapi

    @property
    def is_loaded(self) -> bool:
        """Whether the event loop can use the schema: it is compiled, or will be in less than a millisecond."""
        if "compiled" in self.__dict__:
            return True
        return len(self.source.body) <= _SMALL and is_imported(
            "actors.kinds.structural.compile", "compile_schema"
        )

    def load(self) -> None:
        """Compile what reading and decoding need; usable from any thread."""
        self.compiled.load_for_reading()

    def upgrade(self, stored: Object) -> Object:
        """An object that was stored under an earlier schema, in the form of this one."""
        return self.compiled.prune_and_default(stored)

    def prune(self, shown: Object) -> Object:
        return self.compiled.prune(shown)


_SMALL: Final = 4096  # bytes of a definition: about a hundred nodes at most
NO_FIELDS = Struct("")


class CustomDefinition(Definition):
    def __init__(self, lazy: LazySchema, storage_schema: LazySchema, uid: str, **declared: Any) -> None:
        """`uid` is that of the CustomResourceDefinition: another one of the same name declares another kind.

        `storage_schema` is that of the storage version, in which most objects are stored.
        """
        super().__init__(fields=NO_FIELDS, **declared)
        for compiled in ("fields", "custom"):
            del self.__dict__[compiled]
        self.__dict__["lazy"] = lazy
        self.__dict__["storage_schema"] = storage_schema
        self.__dict__["uid"] = uid

    lazy: LazySchema
    storage_schema: LazySchema
    uid: str

    def continues(self, previous: Definition) -> bool:
        return (
            isinstance(previous, CustomDefinition) and previous.uid == self.uid and previous.kind == self.kind
        )

    def without_creates(self, refusal: str) -> CustomDefinition:
        """The same definition, with what is compiled of it, while no object can be created."""
        made = object.__new__(CustomDefinition)  # `copy` would compile everything
        made.__dict__.update(self.__dict__, create_refusal=refusal)
        return made

    @property
    def is_custom(self) -> bool:
        return True

    @property
    def is_loaded(self) -> bool:
        return self.lazy.is_loaded and self.storage_schema.is_loaded

    def load(self) -> None:
        self.lazy.load()
        self.storage_schema.load()

    @lazy_property
    def schema(self) -> Schema:
        return self.custom.schema

    def prune(self, shown: Object) -> Object:
        """An object without what the schema of this version does not declare."""
        return self.lazy.prune(shown)

    @lazy_property
    def custom(self) -> CustomKind:
        return self.lazy.compiled.custom

    @lazy_property
    def fields(self) -> Struct:
        return CustomStruct(
            self.group,
            self.version,
            self.kind,
            *self.lazy.compiled.fields.fields,
            list_kind=self.list_kind,
            make_schema=self.lazy.openapi,
        )

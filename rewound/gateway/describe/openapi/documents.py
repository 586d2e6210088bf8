"""Creates the OpenAPI documents of one catalog, section by section, as iterators, so that the caller can yield in
between.

One `Documents` encodes a definition once, even if several sections refer to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import Names
from rewound.gateway.describe.compressed import Member, Part
from rewound.gateway.describe.openapi.kinds import Kinds
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.protobuf import as_protobuf, protobuf_member
from rewound.gateway.describe.openapi.schemas import VERSION_2, VERSION_3, DefinitionCache, Document, Schemas
from rewound.gateway.describe.openapi.sections import Section
from rewound.gateway.describe.openapi.texts import Texts
from rewound.gateway.describe.openapi.versions import (
    Version2Writer,
    Version3Writer,
    as_json,
    document_info,
    join_parts,
    json_member,
)
from rewound.gateway.describe.remote import RemoteSpec, remote_members


class Documents:
    def __init__(self, catalog: Catalog, names: Names, version: str) -> None:
        self._names = names
        self._info = document_info(version)
        self._naming = Naming(names, catalog.exists)
        self._texts = Texts()
        self._kinds = Kinds(catalog, names)
        self._encoded_3: DefinitionCache[Any] = {}
        self._encoded_2: dict[bool, DefinitionCache[bytes]] = {True: {}, False: {}}

    def version_3(self, section: Section) -> Iterator[bytes]:
        schemas = Schemas(
            self._names,
            VERSION_3,
            self._kinds,
            self._naming,
            self._texts,
            _fragment,
            self._encoded_3,
            section.group_version,
        )
        return as_json(Version3Writer(self._names, schemas, self._info).entries(section))

    def members_of_version_2(self, json: bool, section: Section) -> Iterator[Member]:
        """The section's paths and definitions, encoded as JSON or as protobuf."""
        encode = json_member if json else protobuf_member
        schemas = Schemas(
            self._names,
            VERSION_2,
            self._kinds,
            self._naming,
            self._texts,
            lambda name, definition: encode("definitions", name, definition),
            self._encoded_2[json],
        )
        return Version2Writer(self._names, schemas).members(section, encode)

    def add_remote(self, json: bool, parts: list[Part], specs: Iterable[RemoteSpec]) -> list[Part]:
        """The parts of our own sections and those of other servers. Takes long: run it in a thread."""
        known: dict[str, bytes] = {}
        for part in parts:
            known = {**part.decompress()[1], **known}
        made = list(parts)
        for spec in specs:
            encode = json_member if json else protobuf_member
            part = Part.of(remote_members(spec, encode, known), b"," if json else b"")
            known = {**part.decompress()[1], **known}
            made.append(part)
        return made

    def version_2(self, json: bool, parts: Iterable[Part]) -> Iterator[bytes]:
        return (as_json if json else as_protobuf)(join_parts(self._info, parts))


def _fragment(_: str, definition: Document) -> orjson.Fragment:
    return orjson.Fragment(dumps(definition))

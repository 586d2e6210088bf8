"""What tests say about kinds, in few words: decode, create, replace, and the causes of a refusal."""

from __future__ import annotations

import copy
from typing import Any

import orjson

from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.kinds.validation.checks import FieldError
from actors.resource.metadata import validate_metadata_create, validate_metadata_update

SYSTEM = {"uid": "u-1", "creationTimestamp": "2020-01-01T00:00:00Z"}


class Declared:
    """Definitions of one dialect by plural name; `events.new` is the view of the events group.

    Views that are one of several have their version in their name too: `horizontalpodautoscalers/v1`.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._by_name = {d.plural + (".new" if d.storage.stored_as else ""): d for d in catalog.definitions}
        self._by_name |= {f"{d.plural}/{d.version}": d for d in catalog.definitions if d.storage.stored_as}

    def __getitem__(self, plural: str) -> Definition:
        return self._by_name[plural]

    def decode(self, plural: str, document: Any) -> dict[str, Any]:
        """The object a document becomes; the document must be free of problems."""
        decoded = self[plural].schema.decode_json(orjson.dumps(document))
        assert decoded.problems == ()
        return decoded.object

    def stored(self, plural: str, document: Any, namespace: str = "ns") -> dict[str, Any]:
        """A new object as it would be stored, valid or not."""
        definition = self[plural]
        new = self.decode(plural, document)
        if definition.storage.conversion is not None:
            new = definition.storage.conversion.to_storage(new)
        new["metadata"].update(SYSTEM)
        if definition.namespaced:
            new["metadata"]["namespace"] = namespace
        definition.strategy.prepare_for_create(new)
        return new

    def created(self, plural: str, document: Any, namespace: str = "ns") -> list[tuple[str, str]]:
        """(field, message) of everything wrong with a create."""
        new = self.stored(plural, document, namespace)
        errors = validate_metadata_create(new["metadata"], self[plural])
        return told(errors + self[plural].strategy.validate_create(new))

    def replaced(
        self, plural: str, before: Any, after: Any, subresource: str = ""
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """What a replace would store, and what is wrong with it."""
        definition = self[plural]
        old = self.stored(plural, before)
        new = self.decode(plural, after)
        if definition.storage.conversion is not None:
            new = definition.storage.conversion.to_storage(new)
        inherited = {
            key: old["metadata"][key] for key in ("namespace", "generation") if key in old["metadata"]
        }
        new["metadata"] = {**SYSTEM, **inherited, **new["metadata"]}
        return new, told(self._judge(definition, new, copy.deepcopy(old), subresource))

    def _judge(
        self, definition: Definition, new: dict[str, Any], old: dict[str, Any], subresource: str
    ) -> list[FieldError]:
        if subresource:
            definition.prepare_subresource(subresource, new, old)
            own = definition.validate_subresource(subresource, new, old)
        else:
            definition.strategy.prepare_for_update(new, old)
            own = definition.strategy.validate_update(new, old)
        return validate_metadata_update(new["metadata"], old["metadata"], definition) + own


def told(errors: list[FieldError]) -> list[tuple[str, str]]:
    return [(error.field, error.message) for error in errors]


def once(causes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Causes as the message of an answer lists them: each one once."""
    return list(dict.fromkeys(causes))

"""Helpers for tests of kinds: decode a document, create or update an object as the server does, and list the causes
of a refusal.
"""

from __future__ import annotations

from typing import Any

import orjson

from rewound.actors.admission.chain import working_copy
from rewound.actors.errors import Invalid
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import FieldError
from rewound.actors.messages import Create, Object, Replace, WriteContext
from rewound.actors.resource.current import Current
from rewound.actors.resource.decide import decide_replace, prepare_create, prepare_replace
from rewound.actors.runtime.time_limit import run_limited

CONTEXT = WriteContext(time=1_577_836_800_000_000, user="tester", manager="tests", uid="u-1", suffix="abcde")
SYSTEM = {"uid": CONTEXT.uid, "creationTimestamp": "2020-01-01T00:00:00Z"}
OFFSET = 7  # of the write that stored the old object of an update

Causes = list[tuple[str, str]]  # (field, message)


def create(definition: Definition, sent: Object, namespace: str = "ns") -> tuple[Object, Causes]:
    """Create an object that is sent in storage form: the stored object, and the causes of a refusal."""
    new = working_copy(sent)
    try:
        command = Create(definition.version, namespace, sent, CONTEXT)
        run_limited(prepare_create, definition, command, new)  # some kinds are validated in a thread only
    except Invalid as error:
        return new, _causes(error)
    if definition.strategy.canonicalize is not None:
        definition.strategy.canonicalize(new)
    return new, []


def replace(
    definition: Definition, sent: Object, old: Object, subresource: str = ""
) -> tuple[Object, Causes]:
    """Replace the stored `old` by an object in storage form: the stored object, and the causes of a refusal."""
    new, current = working_copy(sent), Current(OFFSET, old)
    new["metadata"].setdefault("resourceVersion", str(OFFSET))
    namespace, name = (old["metadata"].get(key, "") for key in ("namespace", "name"))
    command = Replace(definition.version, namespace, name, sent, CONTEXT, subresource)
    try:
        prepared, _ = run_limited(prepare_replace, definition, current, command, new)
    except Invalid as error:
        return new, _causes(error)
    decide_replace(definition, current, prepared)
    return prepared, []


class Definitions:
    """Definitions of one dialect by plural name; `events.new` is the view of the events group.

    A view that is one of several is also found with its version: `horizontalpodautoscalers/v1`.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._by_name = {d.plural + (".new" if d.storage.stored_as else ""): d for d in catalog.definitions}
        self._by_name |= {f"{d.plural}/{d.version}": d for d in catalog.definitions if d.storage.stored_as}

    def __getitem__(self, plural: str) -> Definition:
        return self._by_name[plural]

    def decode(self, plural: str, document: Any) -> dict[str, Any]:
        """Decode a document that has no problems."""
        decoded = self[plural].schema.decode_json(orjson.dumps(document))
        assert decoded.problems == ()
        return decoded.object

    def stored(self, plural: str, document: Any, namespace: str = "ns") -> dict[str, Any]:
        """The object that a create stores; of an invalid one, the object that it refused."""
        return create(self[plural], self._in_storage_form(plural, document), namespace)[0]

    def create_causes(self, plural: str, document: Any, namespace: str = "ns") -> Causes:
        """The causes for which a create is refused; empty if the document is valid."""
        return create(self[plural], self._in_storage_form(plural, document), namespace)[1]

    def update(
        self, plural: str, before: Any, after: Any, subresource: str = ""
    ) -> tuple[dict[str, Any], Causes]:
        """Create `before`, then replace it by `after`: the stored object, and the causes of a refusal."""
        old = self.stored(plural, before)
        return replace(self[plural], self._in_storage_form(plural, after), old, subresource)

    def _in_storage_form(self, plural: str, document: Any) -> dict[str, Any]:
        decoded, conversion = self.decode(plural, document), self[plural].storage.conversion
        return decoded if conversion is None else conversion.to_storage(decoded)


def _causes(error: Invalid) -> Causes:
    return [(cause.field, cause.message) for cause in error.causes]


def causes_of(errors: list[FieldError]) -> Causes:
    return [(error.field, error.message) for error in errors]


def distinct(causes: Causes) -> Causes:
    """The causes without repetitions, as the message of a response lists them."""
    return list(dict.fromkeys(causes))

"""CustomResourceDefinitions that a recording or an import adds, so that custom objects can be served.

Kinds whose definitions are not recorded get one that allows everything. A definition from an audit log may lack its
status, which a server writes itself: without it the kind would not be served.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from rewound.actors.kinds.apiextensions import ADDED_BY_RECORDER, definition_type
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import Names
from rewound.actors.rewind.moments import rfc3339
from rewound.actors.store.document import decode
from rewound.recording.record.changes import ADDED, Change, change_of, stored_change
from rewound.recording.record.kinds import RecordedKind
from rewound.recording.record.writer import RecordingWriter

Document = dict[str, Any]

_CONDITIONS: Final = ("NamesAccepted", "Established")


class Definitions:
    """Adds definitions during an import, so that custom kinds can be served from their first object.

    Added events have no version. They go into the first gap between versions, such as the one of the status that the
    server wrote: if possible, before the first object of the kind. They never get the version of another event.
    """

    def __init__(self, writer: RecordingWriter, names: Names, catalog: Catalog) -> None:
        self._writer = writer
        self._names = names
        self._kind = built_in_definitions(names, catalog.storage(definition_type(names)))
        self._served: set[str] = set()
        self._written: list[str] = []  # definitions that may lack their status
        self._waiting: list[
            tuple[RecordedKind, int]
        ] = []  # kinds without a definition, and when they were seen
        writer.journal.register_types([self._kind.type_name])

    def prepare(self, change: Change) -> None:
        """Add the definition that a change needs before it, which may move the head of the journal."""
        kind, number = change.kind, change.number
        if not kind.is_built_in and kind.type_name not in self._served and kind.group:
            self._served.add(kind.type_name)
            self._waiting.append((kind, change.arrived))
        while self._waiting and number != self._writer.head + 1:
            self._serve(*self._waiting.pop())
        while self._written and (number or change.place) > self._writer.head + 1:
            self._establish(self._written.pop(), change.arrived)

    def add(self, change: Change) -> None:
        """Write a change, and before it the definition that it needs."""
        self.prepare(change)
        self.append(change)

    def append(self, change: Change) -> None:
        """Write a change after `prepare`."""
        self._writer.add(change)
        if change.kind.type_name == self._kind.type_name and not change.removed:
            self._written.append(change.name)

    def finish(self) -> None:
        """Add the definitions that found no gap."""
        while self._waiting:
            self._serve(*self._waiting.pop())

    def _serve(self, kind: RecordedKind, time: int) -> None:
        if not self._establish(kind.type_name, time):
            added = definition_of(kind, self._kind, self._names, time)
            added.uid = ""  # there may be one of which only the name is known
            self._writer.add(added)

    def _establish(self, name: str, time: int) -> bool:
        """Add the status of a definition, if it lacks one; returns False if there is no such definition."""
        key = self._kind.type_name, "", name
        document = decode(self._writer.content(key)) if self._writer.written(key) is not None else {}
        try:
            spec, conditions = document["spec"], (document.get("status") or {}).get("conditions") or ()
            if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
                return True
            stored = [one["name"] for one in spec["versions"] if one.get("storage")]
            document["status"] = established(spec["names"], stored, rfc3339(time)[:19] + "Z")
            change = stored_change(self._kind, document, time, removed=False, with_secrets=False)
        except (KeyError, TypeError, AttributeError, ValueError):
            return False  # incomplete
        change.version, change.reason = "", f"{ADDED}: the status that a server writes itself"
        self._writer.add(change)
        return True


def established(names: Document, stored: list[str], time: str) -> Document:
    """The status of a CustomResourceDefinition whose kind is served."""
    condition = {"status": "True", "lastTransitionTime": time, "reason": "Recorded", "message": ""}
    return {
        "conditions": [{"type": name, **condition} for name in _CONDITIONS],
        "acceptedNames": names,
        "storedVersions": stored,
    }


def definition_of(kind: RecordedKind, definitions: RecordedKind, names: Names, now: int) -> Change:
    """A CustomResourceDefinition for a recorded kind that has none: it lets this server serve the objects,
    untyped.

    Kinds of aggregated servers, of other releases, and custom kinds whose definitions the user may not read.
    The definition is marked by an annotation, because the recorded server does not have it.

    The change that adds the definition; it has no version.
    """
    time = rfc3339(now)[:19] + "Z"
    spelled = {
        "plural": kind.plural,
        "singular": kind.singular or kind.kind.lower(),
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
    }
    schema = {"type": "object", f"{names.extension_prefix}preserve-unknown-fields": True}
    document: dict[str, Any] = {
        "metadata": {
            "name": kind.type_name,
            "uid": str(uuid5(NAMESPACE_URL, f"rewound:{kind.type_name}")),
            "generation": 1,
            "creationTimestamp": time,
            "annotations": {ADDED_BY_RECORDER: "true"},
        },
        "spec": {
            "group": kind.group,
            "names": spelled,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
            "conversion": {"strategy": "None"},
        },
        "status": established(spelled, [kind.version], time),
    }
    change = change_of(definitions, document, now, removed=False, with_secrets=False)
    change.reason = f"{ADDED}, so that {kind.type_name} can be served"
    return change


def built_in_definitions(names: Names, storage: Any) -> RecordedKind:
    """The kind CustomResourceDefinition, even where it is not recorded."""
    return RecordedKind(
        definition_type(names),
        storage.group,
        storage.version,
        storage.plural,
        storage.kind,
        False,
        definition=storage,
        storage=storage,
    )

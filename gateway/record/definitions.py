"""A CustomResourceDefinition for a recorded kind that has none: it lets this server serve the objects, untyped.

Kinds of aggregated servers, of other releases, and custom kinds whose definitions the user may not read. The definition
is marked by an annotation, because the recorded server does not have it.
"""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from actors.kinds.apiextensions import ADDED_BY_RECORDER, definition_type
from actors.names import Names
from actors.rewind.moments import rfc3339
from gateway.record.changes import Change, change_of
from gateway.record.kinds import RecordedKind


def definition_of(kind: RecordedKind, definitions: RecordedKind, names: Names, now: int) -> Change:
    """The change that adds the definition; it has no version."""
    time = rfc3339(now)[:19] + "Z"
    spelled = {
        "plural": kind.plural,
        "singular": kind.singular or kind.kind.lower(),
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
    }
    condition = {"status": "True", "lastTransitionTime": time, "reason": "Recorded", "message": ""}
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
        "status": {
            "conditions": [{"type": name, **condition} for name in ("NamesAccepted", "Established")],
            "acceptedNames": spelled,
            "storedVersions": [kind.version],
        },
    }
    change = change_of(definitions, document, now, removed=False, with_secrets=False)
    change.reason = f"added by the recorder, so that {kind.type_name} can be served"
    return change


def built_in_definitions(names: Names, storage: Any) -> RecordedKind:
    """The kind of definitions, also where it is not recorded."""
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

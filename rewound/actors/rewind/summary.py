"""What a write changed, in one line: the most relevant fields with their old and new values.

    {"changes": [{"field": "spec.replicas", "old": 2, "new": 5}], "more": 1, "statusOnly": false}

A created object has a text instead of changes, like `replicas 2, image web:1`. Fields that change with every write
(resourceVersion, generation, managedFields) are left out. Objects may have any content: values of unexpected types
are not described.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from rewound.actors.golang.json import unescaped
from rewound.actors.rewind.contents import parsed
from rewound.actors.rewind.difference import (
    ABSENT,
    MANAGED_FIELDS,
    RESOURCE_VERSION,
    Change,
    difference,
    escaped,
    item_path,
)

Document = dict[str, Any]

SHOWN: Final = 3  # changes in a summary
MAX_CHANGES: Final = 5000  # changes compared: with the longest paths, these take 10 MB
WIDTH: Final = 80  # characters of a value, and of the text about a created object
FIELD_WIDTH: Final = 300  # characters of a path
CONDITIONS: Final = 20  # items of one list that are listed individually
MASK: Final = "***"
_LEFT_OUT: Final = RESOURCE_VERSION | {MANAGED_FIELDS, "metadata.generation"}
# The last part of a path: of a relevant field, and of one that changes along with another.
_RELEVANT: Final = frozenset(
    (
        "replicas",
        "image",
        "phase",
        "paused",
        "suspend",
        "nodeName",
        "deletionTimestamp",
        "readyReplicas",
        "ready",
    )
)
_ACCOMPANYING: Final = frozenset(
    (
        "observedGeneration",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastProbeTime",
        "lastHeartbeatTime",
        "renewTime",
        "time",
    )
)
_MAIN_CONDITIONS: Final = tuple(
    f"conditions[type={name}].status"
    for name in ("Ready", "Available", "Complete", "Failed", "Succeeded", "Established")
)
_EXPLAINING: Final = frozenset(("reason", "message"))


def summarize(before: bytes | None, after: bytes, *, secret: bool) -> Document:
    """Summarize the change between two contents; `before` is None if the object was created. `secret`: hide values."""
    if before is None:
        return summary_of_created(parsed(after))
    old, new = parsed(before), parsed(after)
    found = summary_of(difference(old, new, _LEFT_OUT, most=MAX_CHANGES), secret=secret)
    if found["statusOnly"] and found["more"] >= MAX_CHANGES - SHOWN:  # unread changes may be elsewhere
        found["statusOnly"] = not difference(old, new, _LEFT_OUT | {"status"}, most=1)
    return found


def summary_of_created(content: Document) -> Document:
    return {"changes": [], "more": 0, "statusOnly": False, "text": _description(content)}


def summary_of(changes: list[Change], *, secret: bool) -> Document:
    """Summarize the first `MAX_CHANGES` changes."""
    changes = list(islice((one for change in changes for one in _condition_changes(change)), MAX_CHANGES))
    shown = heapq.nsmallest(SHOWN, enumerate(changes), key=lambda one: (_rank(one[1].path), one[0]))
    return {
        "changes": [_document(change, masked=secret and _has_secret(change.path)) for _, change in shown],
        "more": len(changes) - len(shown),
        "statusOnly": bool(changes) and all(_top(change.path) == "status" for change in changes),
    }


def compacted() -> Document:
    """Return the summary for when the journal no longer has the content before."""
    return {"changes": [], "more": 0, "statusOnly": False, "compacted": True}


def line_of(found: Document) -> str:
    """Format a summary for a person: `spec.replicas 2 → 5, and 1 more`."""
    parts = [_change_text(change) for change in found["changes"]]
    if found["more"]:
        parts.append(f"and {found['more']} more")
    return escaped(", ".join(parts) or found.get("text", ""))


def _change_text(change: Document) -> str:
    if "old" not in change:
        return f"+ {change['field']} {_text(change['new'])}"
    if "new" not in change:
        return f"- {change['field']} {_text(change['old'])}"
    return f"{change['field']} {_text(change['old'])} → {_text(change['new'])}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else unescaped(value).decode()


def _top(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]


def _condition_changes(change: Change) -> Iterable[Change]:
    """Describe added and removed conditions by their status."""
    value = change.after if change.before is ABSENT else change.before
    if change.before is not ABSENT and change.after is not ABSENT:
        return (change,)
    listed = isinstance(value, list) and value and all(map(_is_condition, value))
    if listed and change.path.endswith("conditions"):
        return [
            _condition(change, item_path(change.path, "type", one["type"]), one) for one in value[:CONDITIONS]
        ]
    if change.path.endswith("]") and "conditions[type=" in change.path and _is_condition(value):
        return (_condition(change, change.path, value),)
    return (change,)


def _is_condition(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and isinstance(value.get("status"), str)
    )


def _condition(change: Change, path: str, condition: Document) -> Change:
    added = change.before is ABSENT
    status = condition["status"]
    return Change(f"{path}.status", *((ABSENT, status) if added else (status, ABSENT)))


def _rank(path: str) -> tuple[int, int]:
    """Return a sort key: spec first, then metadata, then status; fields that change along with others are last."""
    top, leaf = _top(path), _leaf(path)
    if leaf == "deletionTimestamp":
        return 0, 0
    part = {"metadata": 1, "status": 2}.get(top, 0)
    if leaf in _ACCOMPANYING:
        return 3 + part, 0
    if leaf in _RELEVANT or path.endswith(_MAIN_CONDITIONS):
        return part, 0
    return part, 2 if leaf in _EXPLAINING else 1


def _has_secret(path: str) -> bool:
    """Whether the object may contain secrets, also in annotations: `kubectl apply` stores the manifest in one."""
    whole = path in ("", "metadata")
    return whole or _top(path) in ("data", "stringData") or path.startswith("metadata.annotations")


def _document(change: Change, *, masked: bool) -> Document:
    document: Document = {"field": _cut(change.path, FIELD_WIDTH)}
    if change.before is not ABSENT:
        document["old"] = MASK if masked else _value(change.before)
    if change.after is not ABSENT:
        document["new"] = MASK if masked else _value(change.after)
    return document


def _value(value: Any) -> Any:
    """Return small values as they are, larger ones as text that is cut."""
    if isinstance(value, (dict, list)):
        text = unescaped(value).decode()
        return value if len(text) <= WIDTH else _cut(text)
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str, width: int = WIDTH) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _description(created: Any) -> str:
    return _cut(", ".join(part for part in _described(created) if part))


def _described(created: Any) -> Iterator[str]:
    """Yield the fields of a new object by which people recognize it, of whatever kind."""
    spec = _map(created, "spec")
    if _is_number(spec.get("replicas")):
        yield f"replicas {spec['replicas']}"
    if images := list(_images(spec)):
        yield f"image{'s' if len(images) > 1 else ''} {', '.join(images)}"
    for name in ("schedule", "completions", "nodeName", "type", "storageClassName"):
        if isinstance(value := spec.get(name), (str, int)) and not isinstance(value, bool):
            yield f"{name} {value}"
    if ports := [str(port.get("port")) for port in _maps(spec.get("ports")) if _is_number(port.get("port"))]:
        yield f"port{'s' if len(ports) > 1 else ''} {', '.join(ports[:SHOWN])}"
    if isinstance(storage := _map(spec, "resources", "requests").get("storage"), str):
        yield f"storage {storage}"
    if isinstance(role := _map(created, "roleRef").get("name"), str):
        yield f"role {role}"
    for name in ("data", "stringData", "binaryData"):
        if keys := len(_map(created, name)):
            yield f"{keys} key{'s' if keys > 1 else ''}"
    yield from _event_text(created)


def _event_text(created: Any) -> Iterator[str]:
    """Describe an Event by what happened to the other object."""
    if isinstance(created, dict) and isinstance(reason := created.get("reason"), str):
        text = created.get("message") or created.get("note")
        yield f"{reason}: {text}" if isinstance(text, str) else reason


def _images(spec: Document) -> Iterator[str]:
    for place in (
        spec,
        _map(spec, "template", "spec"),
        _map(spec, "jobTemplate", "spec", "template", "spec"),
    ):
        for container in _maps(place.get("containers"))[:SHOWN]:
            if isinstance(image := container.get("image"), str):
                yield image


def _map(document: Any, *path: str) -> Document:
    """Return the map at a path, or an empty one."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _maps(value: Any) -> list[Document]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

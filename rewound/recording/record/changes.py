"""One recorded change: an object of another server, in the form in which the journal stores objects.

Lists and watches do not show the user: without an audit log it is `recorded`, and `attribution` finds the field
manager. Values of Secrets are masked unless the user asks for them.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.selectors.facts import pack_facts
from rewound.actors.store.document import in_usual_order
from rewound.journal import keys
from rewound.journal.contents import fits
from rewound.recording.record.attribution import Comparison, check_entries
from rewound.recording.record.kinds import RecordedKind
from rewound.recording.record.secret_annotations import annotations_with_values

Document = dict[str, Any]

USER: Final = "recorded"
SECRETS: Final = "secrets"
# Values of a Secret are base64: this is valid for clients that decode it.
MASK: Final = base64.b64encode(b"***").decode()
MASKED_MANIFEST: Final = "***"
# Prefixes of the reasons of events that had no version on the recorded server.
FOUND_DELETED: Final = "found to be deleted"
ADDED: Final = "added by the recorder"
UNREAD: Final = "its last content could not be recorded"
# A larger version gets a free offset instead: the journal has to have room for the events after it.
_LARGEST: Final = keys.LARGEST_OFFSET - (1 << 40)
_LONGEST: Final = 128  # letters of a uid or a version


def number_of(version: str) -> int | None:
    """A version as a number; None if it is not a number, or too large for an offset."""
    number = int(version) if version.isdecimal() and len(version) < 20 else None
    return number if number is None or number <= _LARGEST else None


class Author(NamedTuple):
    """The author of a change, according to the audit log of the recorded server."""

    user: str
    verb: str
    manager: str
    source: str  # user agent and addresses
    time: int  # microseconds since 1970
    guessed: bool = False  # the request was found by object, verb and time alone
    may_apply: bool = False  # a patch whose content the log does not have: managedFields may show an apply


@dataclass(slots=True)
class Change:
    kind: RecordedKind
    namespace: str
    name: str
    uid: str
    version: str  # of the recorded server; empty if it is not known
    removed: bool
    # With an empty resourceVersion; empty if a list no longer has the object: use its last content.
    body: bytes
    facts: bytes
    arrived: int  # microseconds since 1970
    reason: str = ""
    author: Author | None = None
    listed: bool = False  # a list showed it: there may have been others before it
    # Microseconds before the author's time in which it was made; 0 if that is known well enough.
    lasted: int = 0
    alone: bool = False  # a removal of an object that has no event before it
    place: int = 0  # preferred offset of a change without a version
    after: int = 0  # the version of the object before it, for a change without a version
    comparison: Comparison | None = None  # with the content before it, if that was made already
    sequence: int = 0  # among the changes of its kind that a recorder has received

    @property
    def number(self) -> int | None:
        """The version as a number; None if it is not a number, or not known."""
        return number_of(self.version)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind.type_name, self.namespace, self.name


def change_of(
    kind: RecordedKind, given: Document, arrived: int, *, removed: bool, with_secrets: bool
) -> Change:
    """The change to an object as the server sent it.

    Raises KeyError, TypeError, AttributeError or ValueError for most malformed objects, and whatever else the code of
    a kind raises.
    """
    return stored_change(
        kind, _in_storage_form(kind, given), arrived, removed=removed, with_secrets=with_secrets
    )


def stored_change(
    kind: RecordedKind, stored: Document, arrived: int, *, removed: bool, with_secrets: bool
) -> Change:
    """Like `change_of`, for an object in its storage version; takes ownership of `stored`."""
    if kind.type_name == SECRETS and not with_secrets:
        _mask(stored)
    metadata = stored["metadata"]
    namespace = metadata.get("namespace", "") if kind.namespaced else ""
    name, uid, version = metadata["name"], metadata.get("uid", ""), str(metadata.get("resourceVersion", ""))
    check_names(namespace, name, uid, version)
    ordered = in_usual_order({**metadata, "resourceVersion": ""})
    document: Document = {} if kind.is_built_in else {"apiVersion": kind.api_version}
    document["metadata"] = {**ordered, **{key: one for key, one in metadata.items() if key not in ordered}}
    document.update((key, one) for key, one in stored.items() if key not in _TYPE and key != "metadata")
    check_entries(document)
    body, facts = dumps(document), _facts(kind, stored)
    if not fits(facts, body):
        raise ValueError(f"it has {len(body):,} bytes, more than a recording takes")
    return Change(kind, namespace, name, uid, version, removed, body, facts, arrived)


def check_names(namespace: str, name: str, uid: str, version: str) -> None:
    """Raises TypeError or ValueError if the journal cannot store the names."""
    if not _are_texts([namespace, name, uid]):
        raise TypeError("name, namespace and uid must be strings")
    if keys.find_object(1, namespace, name) is None or max(len(uid), len(version)) > _LONGEST:
        raise ValueError("its name, namespace, uid or resourceVersion cannot be stored")


def removal(
    kind: RecordedKind, namespace: str, name: str, version: str, arrived: int, last: str = ""
) -> Change:
    """The removal of an object that is missing in a list: it was deleted while the recorder did not watch.

    `last` is its last known version.
    """
    reason = f"{FOUND_DELETED} by the list at version {version}"
    after = number_of(last) or 0
    return Change(kind, namespace, name, "", "", True, b"", b"", arrived, reason=reason, after=after)


def unread_removal(
    kind: RecordedKind, namespace: str, name: str, version: str, arrived: int, last: str
) -> Change:
    """The removal of an object whose last content cannot be read: the one before is that of the event.

    Without a `version` another object has replaced it.
    """
    after = number_of(last) or 0
    reason = UNREAD if version else f"{FOUND_DELETED}, as another object has its name"
    return Change(kind, namespace, name, "", version, True, b"", b"", arrived, reason=reason, after=after)


class Ordered(Protocol):
    """A change, or where it is stored."""

    @property
    def number(self) -> int | None: ...

    @property
    def after(self) -> int: ...


AnyOrdered = TypeVar("AnyOrdered", bound=Ordered)


def in_order(changes: Iterable[AnyOrdered], head: Callable[[], int]) -> Iterator[AnyOrdered]:
    """By version; changes without one go into gaps between versions, after the last version of their object.

    `head()` is the newest version in the journal, which advances in between.
    """
    known: list[AnyOrdered] = []
    unknown: deque[AnyOrdered] = deque()
    for one in changes:
        (unknown if one.number is None else known).append(one)
    known.sort(key=lambda one: one.number or 0)
    unknown = deque(sorted(unknown, key=lambda one: one.after))
    for one in known:
        assert one.number is not None
        while unknown and unknown[0].after < one.number > head() + 1:
            yield unknown.popleft()
        yield one
    yield from unknown


_TYPE: Final = ("kind", "apiVersion")


def _in_storage_form(kind: RecordedKind, given: Document) -> Document:
    definition = kind.definition
    if definition is None or not definition.storage.stored_as or definition.storage.conversion is None:
        return dict(given)
    converted = definition.storage.conversion.to_storage(
        {key: one for key, one in given.items() if key not in _TYPE}
    )
    return dict(converted)


def _facts(kind: RecordedKind, stored: Document) -> bytes:
    """The facts for selectors and the garbage collector. Raises TypeError or KeyError for invalid labels or owners."""
    metadata = stored["metadata"]
    fields = _selectable(kind.storage, stored) if kind.storage is not None else {}
    fields["metadata.name"] = metadata["name"]
    if kind.namespaced:
        fields["metadata.namespace"] = metadata.get("namespace", "")
    labels = metadata.get("labels") or {}
    owners = [one["uid"] for one in metadata.get("ownerReferences") or ()]
    if not isinstance(labels, dict) or not _are_texts([*labels.values(), *owners]):
        raise TypeError("labels and uids of owners must be strings")
    return pack_facts(labels, fields, metadata.get("uid", ""), owners)


def _selectable(storage: Definition, stored: Document) -> dict[str, str]:
    """The fields that this release selects by; those that the object lacks count as empty."""
    found = {}
    for label, read in storage.selection.fields.items():
        try:
            value = read(stored)
        except _MISSING:
            continue
        if _are_texts([value]):
            found[label] = value
    return found


# Errors of code that follows a path through an object whose members have unexpected types.
_MISSING: Final = (KeyError, TypeError, AttributeError)


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(one, str) for one in values)


def _mask(secret: Document) -> None:
    """Replace the values, and the annotations that may hold them."""
    hidden = dict.fromkeys(annotations_with_values(secret), MASKED_MANIFEST)
    for field in ("data", "stringData"):
        found = secret.get(field)
        if isinstance(found, dict):
            secret[field] = dict.fromkeys(found, MASK)
        elif found is not None:
            secret[field] = MASK  # no server stores such a Secret, but a log may have it
    if hidden:
        metadata = secret["metadata"]
        secret["metadata"] = {**metadata, "annotations": {**metadata["annotations"], **hidden}}

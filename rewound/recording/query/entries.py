"""What commands read from a journal: the kinds, the conditions on events, and an event with the content before it.

It needs no journal, because a server sends the same. The values of Secrets are masked unless --show-secrets is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from rewound.actors.golang.json import unescaped
from rewound.actors.rewind.contents import parsed
from rewound.actors.rewind.difference import MANAGED_FIELDS, RESOURCE_VERSION, Change, difference
from rewound.actors.rewind.summary import compacted, summarize
from rewound.client.errors import UsageError
from rewound.journal.records import Event
from rewound.recording.record.secret_annotations import annotations_with_values

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of the journal, as commands name it."""

    type_name: str  # configmaps, leases.coordination.<domain>
    kind: str
    api_version: str  # empty for a type that this release does not declare
    namespaced: bool | None  # None: not known

    @property
    def is_secret(self) -> bool:
        return self.type_name == "secrets"


def near_kind(text: str, known: Iterable[str], plurals: Iterable[str]) -> str:
    """Suggest kinds in place of one that does not exist."""
    import difflib

    near = difflib.get_close_matches(text.lower(), sorted(set(known)), n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(set(plurals)))}"


def object_bytes(kind: Kind, body: bytes) -> bytes:
    """An object with kind and apiVersion, if they are known."""
    if not kind.api_version:
        return body
    from rewound.actors.store.document import api_version_of, kind_prefix, type_prefix, typed

    named = api_version_of(body)
    return typed(kind_prefix(kind.kind) if named else type_prefix(kind.kind, kind.api_version), body)


_WILD = frozenset("*?[")
# The verbs of events in the journal.
VERBS = ("create", "update", "patch", "apply", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions on events, all of which must hold. None is no condition; texts may have wildcards."""

    kinds: tuple[Kind, ...] = ()
    namespace: str | None = None
    name: str | None = None
    user: str | None = None
    verb: str | None = None
    show_secrets: bool = False  # print the values of Secrets
    managed_fields: bool = False  # compare metadata.managedFields too
    contents: bool = True  # whether the caller needs the objects, not only what changed

    @property
    def one_namespace(self) -> str | None:
        """The namespace of all selected objects, if it is given without wildcards."""
        return None if self.namespace is None or _WILD & {*self.namespace} else self.namespace

    @property
    def one_name(self) -> str | None:
        """The name of all selected objects, if it is given without wildcards."""
        return None if self.name is None or _WILD & {*self.name} else self.name

    def matches_names(self, namespace: str, name: str) -> bool:
        """Whether namespace and name match."""
        return (self.namespace is None or fnmatchcase(namespace, self.namespace)) and (
            self.name is None or fnmatchcase(name, self.name)
        )


def check_verb(verb: str | None) -> None:
    """Raises UsageError for a verb that no event has."""
    if verb is not None and not any(fnmatchcase(known, verb) for known in VERBS):
        raise UsageError(f"--verb: {verb!r} is not a verb of the journal; there are {', '.join(VERBS)}")


@dataclass(frozen=True)
class Entry:
    """An event with the content before it."""

    event: Event
    before: bytes | None  # None: it did not exist, or retention removed it
    masked: bool = False  # a Secret whose values are not printed
    given: Document | None = None  # the summary, if a server has sent that instead of both contents

    @property
    def follows(self) -> bool:
        return self.before is not None

    @property
    def body(self) -> bytes:
        """The content to print."""
        return masked(self.event.body) if self.masked else self.event.body

    @cached_property
    def changes(self) -> list[Change]:
        return self.compared(managed_fields=False)

    @cached_property
    def summary(self) -> Document:
        """A summary of what it changed (`actors/rewind/summary.py`); meaningless for a deletion."""
        if self.given is not None:
            return self.given
        if self.before is None and self.event.had_before:
            return compacted()
        return summarize(self.before, self.event.body, secret=self.masked)

    def compared(self, *, managed_fields: bool) -> list[Change]:
        """The changes; none when the content before is not known."""
        if self.before is None:
            return []
        return compared(self.before, self.event.body, managed_fields=managed_fields, mask=self.masked)


def compared(before: bytes, after: bytes, *, managed_fields: bool, mask: bool) -> list[Change]:
    """The differences between two stored contents; `mask`: of a Secret, without its values."""
    ignored = RESOURCE_VERSION if managed_fields else RESOURCE_VERSION | {MANAGED_FIELDS}
    one: Any = parsed(before)
    other: Any = parsed(after)
    if mask:
        one, other = masked_pair(one, other)
    return difference(one, other, ignored)


MASK, MASK_BEFORE, MASK_AFTER = "***", "*** (before)", "*** (after)"
_VALUES = ("data", "stringData")


def masked(body: bytes) -> bytes:
    """A stored Secret without its values."""
    document: Document = parsed(body)
    for values, names in _values(document):
        values.update(dict.fromkeys(names, MASK))
    return unescaped(document)


def masked_pair(before: Document, after: Document) -> tuple[Document, Document]:
    """Two versions of a Secret without their values: changed ones differ in the mask."""
    earlier, later = _copied_values(before), _copied_values(after)
    for own, other, mask in ((before, later, MASK_BEFORE), (after, earlier, MASK_AFTER)):
        for number, (values, names) in enumerate(_values(own)):
            for name in names:
                changed = name in other[number] and other[number][name] != values[name]
                values[name] = mask if changed else MASK
    return before, after


def _copied_values(document: Document) -> list[Document]:
    return [dict(values) for values, _ in _values(document)]


def _values(document: Document) -> list[tuple[Document, list[str]]]:
    """The maps of a Secret that have secret values, and the names of these."""
    found = [_map(document, field) for field in _VALUES]
    annotations = _map(document.get("metadata") or {}, "annotations")
    return [*((values, list(values)) for values in found), (annotations, annotations_with_values(document))]


def _map(document: Document, field: str) -> Document:
    value = document.get(field)
    return value if isinstance(value, dict) else {}


def object_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"

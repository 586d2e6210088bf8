"""History, differences and blame as documents of the API group, and as text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from rewound.actors.rewind.blame import Blame
from rewound.actors.rewind.contents import parsed
from rewound.actors.rewind.difference import (
    COLUMN_WIDTH,
    MANAGED_FIELDS,
    RESOURCE_VERSION,
    Change,
    Operations,
    describe,
    difference,
    escaped,
    left_out_text,
    patch_between,
    shortened,
)
from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.moments import rfc3339
from rewound.actors.rewind.versions import Address, Version, read_slice, uid_of
from rewound.journal.log import Journal
from rewound.journal.records import Event

Document = dict[str, Any]

PAGE_BYTES = 4 << 20  # bytes of contents compared for one page, which ends early when they are reached


class HistoryPage(NamedTuple):
    items: list[Document]
    following: int  # the offset of the next page; 0 after the last
    size: int  # bytes of the contents that it was made from


def event_document(event: Event) -> Document:
    """Describe who wrote a version, when and how."""
    document: Document = {
        "version": str(event.offset),
        "time": rfc3339(event.time),
        "user": event.user,
        "verb": event.verb,
        "fieldManager": event.manager,
    }
    if event.reason:
        document["reason"] = event.reason
    if event.is_guess:
        document["guessed"] = True
    if event.is_user_guess:
        document["userGuessed"] = True
    return document


def history_page(
    journal: Journal, address: Address, start: int, limit: int, *, managed_fields: bool, changes: bool = False
) -> LongWork[HistoryPage]:
    """Return at most `limit` versions, newest first, starting at an offset. `changes`: add old and new values by
    field.
    """
    items: list[Document] = []
    size = 0
    while True:
        found = read_slice(journal, address, start, limit - len(items))
        for version in found.versions:
            read = len(version.event.body) + len(version.before or b"")
            size += read
            work = partial(version_document, version, managed_fields=managed_fields, changes=changes)
            items.append((yield Piece(work, read)))
        start = found.following
        if not start or len(items) >= limit or size > PAGE_BYTES:
            return HistoryPage(items, start, size)
        yield Piece(lambda: None)


def version_document(version: Version, *, managed_fields: bool, changes: bool = False) -> Document:
    """Return one entry of a history. Its patch turns the version before into this one."""
    event = version.event
    document = {**event_document(event), "uid": uid_of(event)}
    if event.removed:
        return {**document, "deleted": True, "patch": [{"op": "remove", "path": ""}]}
    if version.compacted:
        return {**document, "compacted": True, "patch": None}
    after = parsed(event.body)
    if version.before is None:
        return {**document, "patch": [{"op": "add", "path": "", "value": after}]}
    before = parsed(version.before)
    if not managed_fields:
        for one in (before, after):
            _drop_managed_fields(one)
    document["patch"] = patch_between(before, after)
    if changes:
        document["changes"] = [change.document() for change in difference(before, after)]
    return document


def _drop_managed_fields(document: Document) -> None:
    """Remove the fields that change with every write."""
    for name in ("managedFields", "resourceVersion"):
        document["metadata"].pop(name, None)


def patch_of(before: bytes | None, after: bytes | None, *, managed_fields: bool) -> Operations:
    """Return the patch from one content to another; None: the object does not exist."""
    if before is None or after is None:
        if before is after:
            return []
        return [{"op": "remove", "path": ""}] if after is None else [_added(after)]
    one, other = parsed(before), parsed(after)
    if not managed_fields:
        for document in (one, other):
            _drop_managed_fields(document)
    return patch_between(one, other)


def _added(after: bytes) -> Document:
    return {"op": "add", "path": "", "value": parsed(after)}


def changes_of(before: bytes | None, after: bytes | None, *, managed_fields: bool) -> list[Change]:
    """Return the changes field by field, or none if the object does not exist at one end."""
    if before is None or after is None:
        return []
    ignored = RESOURCE_VERSION if managed_fields else RESOURCE_VERSION | {MANAGED_FIELDS}
    return difference(parsed(before), parsed(after), ignored)


def change_lines(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        yield escaped(f"{change.sign} {describe(change, None)}")


def blame_document(found: Blame) -> list[Document]:
    owners = {offset: event_document(event) for offset, event in found.events.items()}
    return [
        {
            "field": one.field,
            **({} if one.pointer is None else {"path": one.pointer}),
            "value": one.value,
            **owners[one.version],
            **({"compacted": True} if one.version == found.oldest else {}),
        }
        for one in found.fields
    ]


def blame_lines(found: Blame) -> Iterator[str]:
    """Return lines like those of `git blame`: version, time, user, manager, field and value."""
    rows = [
        (str(event.offset), rfc3339(event.time)[:19] + "Z", event.user_text, event.manager_text, one)
        for one in found.fields
        for event in (found.events[one.version],)
    ]
    widths = [
        min(COLUMN_WIDTH, max((len(escaped(row[at])) for row in rows), default=0))  # type: ignore[arg-type]
        for at in range(4)
    ]
    for version, time, user, manager, one in rows:
        mark = "^" if one.version == found.oldest else " "
        cells = (
            version.rjust(widths[0]),
            time,
            escaped(user).ljust(widths[2]),
            escaped(manager).ljust(widths[3]),
        )
        yield f"{mark}{'  '.join(cells)}  {escaped(f'{one.field}: {shortened(one.value)}')}"
    if found.left_out:
        yield left_out_text(found.left_out)

"""Finds the field manager of a recorded change by comparing metadata.managedFields before and after it.

A write that sets a field gives its manager's entry the time of the write, in whole seconds. So an entry that is new or
has a new time is the writer's. Two writes within a second may leave all times as they were: then it is the entry that
has more fields than before, or, if no entry differs, the only one with the newest time. A write that only removes
fields changes no entry of its own, but entries of others lose fields: their manager is a guess. A deletion changes no
entry at all.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

Document = dict[str, Any]

UNKNOWN: Final = "unknown"  # as a field manager
_LONGEST: Final = 128  # letters of a manager
_SAME_SECOND: Final = 3_000_000  # microseconds from the second of a write to its arrival, at most
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Writer(NamedTuple):
    manager: str
    time: int = 0  # microseconds since 1970, in whole seconds; 0 if it is not known
    applied: bool = False  # by server-side apply
    guessed: bool = False
    deletes: bool = False  # it marked the object as deleted


_Identity = tuple[str, str, str, str]


class _Entry(NamedTuple):
    """Its fields are compared as they are: to list their paths takes longer than all else, and few changes need it."""

    time: str
    fields: Document

    def gained(self, before: _Entry) -> bool:
        return self.fields != before.fields and not _paths(self.fields) <= _paths(before.fields)

    def differs(self, other: _Entry) -> bool:
        return self.fields != other.fields and _paths(self.fields) != _paths(other.fields)


class Comparison(NamedTuple):
    """What a change shows next to the content before it."""

    writer: Writer
    different: frozenset[str]  # the members of the object that differ, without metadata


def compared(before: Document | None, after: Document, arrived: int) -> Comparison:
    old = before or {}
    different = {key for key in old.keys() | after.keys() if old.get(key) != after.get(key)}
    return Comparison(writer_of(before, after, arrived), frozenset(different - {"metadata"}))


def writer_of(before: Document | None, after: Document, arrived: int) -> Writer:
    """The writer of a change of one object; `before` is None for its first known content.

    `arrived` is when the recorder got it, in microseconds since 1970.
    """
    now = _entries(after)
    if before is None:
        if not now:
            return Writer("", _micros(after["metadata"].get("creationTimestamp", "")))
        return _only(_newest(now), now)
    if _is_marked(after) and not _is_marked(before):
        return Writer("", deletes=True)
    then = _entries(before)
    if not now and not then:
        return Writer("")  # this server has no managedFields: no manager, which is no guess
    stamped = [one for one in now if one not in then or now[one].time != then[one].time]
    if stamped:
        found = _only(_newest({one: now[one] for one in stamped}), now)
        return found._replace(guessed=found.guessed or len(stamped) > 1)
    gained = [one for one in now if now[one].gained(then[one])]
    if gained:
        return _only(gained, now)
    lost = [one for one in then if one not in now or now[one].differs(then[one])]
    if lost:
        return _only(lost, then)._replace(time=0, guessed=True)
    newest = _of_sections(_newest(now), before, after)
    if newest and arrived - _micros(now[newest[0]].time) < _SAME_SECOND:
        return _only(newest, now)
    return Writer(UNKNOWN, guessed=True)


def _only(found: list[_Identity], entries: dict[_Identity, _Entry]) -> Writer:
    """The writer if there is exactly one candidate; otherwise it is unknown."""
    times = {entries[one].time for one in found}
    time = _micros(times.pop()) if len(times) == 1 else 0
    if len(found) != 1:
        return Writer(UNKNOWN, time, guessed=True)
    [(manager, operation, *_)] = found
    return Writer(manager[:_LONGEST], time, operation == "Apply")


def _newest(entries: dict[_Identity, _Entry]) -> list[_Identity]:
    newest = max((one.time for one in entries.values()), default="")
    return [identity for identity, one in entries.items() if one.time == newest]


def _of_sections(found: list[_Identity], before: Document, after: Document) -> list[_Identity]:
    """The candidates that can have written what differs: the status, or everything else."""
    different = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    different.discard("metadata")
    if len(found) < 2 or not different:
        return found
    return [one for one in found if (one[3] == "status") is (different == {"status"})]


def _is_marked(document: Document) -> bool:
    return "deletionTimestamp" in document["metadata"]


def check_entries(document: Document) -> None:
    """Raises AttributeError or TypeError if managedFields is not a list of objects."""
    _entries(document)


def _entries(document: Document) -> dict[_Identity, _Entry]:
    found: dict[_Identity, _Entry] = {}
    for one in document["metadata"].get("managedFields") or ():
        parts = (one.get(part) or "" for part in ("manager", "operation", "apiVersion", "subresource"))
        manager, operation, version, subresource = map(str, parts)
        fields = one.get("fieldsV1") or {}
        if not isinstance(fields, dict):
            raise TypeError("fieldsV1 must be an object")
        found[manager, operation, version, subresource] = _Entry(str(one.get("time") or ""), fields)
    return found


def _paths(fields: Document) -> set[str]:
    found, waiting = set[str](), [("", fields)]
    while waiting:
        path, inside = waiting.pop()
        for key, more in inside.items():
            below = f"{path}/{key}"
            found.add(below)
            if isinstance(more, dict):
                waiting.append((below, more))
    return found


def _micros(time: str) -> int:
    try:
        return (datetime.fromisoformat(time) - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError):
        return 0

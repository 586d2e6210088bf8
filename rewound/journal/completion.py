"""Completes events of a recording whose author became known after they were written.

A recorder writes a change when it sees it; the audit event that says who made it may come half a minute later. Content,
offset, time and place of an event never change. The four fields that the recorder could not know are set once: an event
that has another user than the placeholder stays as it is.

Rejected: a table of authors beside the events, joined by every reader (docs/decisions/0088-audit-sink.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rewound.journal import keys, records
from rewound.journal.log import Journal


class Authorship(NamedTuple):
    """What an event gets: the fields of `records.Event` with these names."""

    offset: int
    verb: str
    user: str
    manager: str
    reason: str


def complete(journal: Journal, found: Sequence[Authorship], placeholder: str) -> int:
    """Set the authors of events that still have the placeholder as their user, in one durable transaction.

    Returns how many there were: retention may have removed an event meanwhile.
    """
    events = journal.environment.databases.events

    def put(txn: Any) -> int:
        completed = 0
        for one in found:
            packed = keys.pack_offset(one.offset)
            value = txn.get(packed, db=events)
            event = None if value is None else records.decode_event(one.offset, value)
            if event is not None and event.user == placeholder:
                changed = event._replace(verb=one.verb, user=one.user, manager=one.manager, reason=one.reason)
                changed = records.with_cut(changed) if event.is_cut else changed
                txn.put(packed, records.encode_event(packed, changed), db=events)
                completed += 1
        return completed

    return journal.environment.write(put) if found else 0

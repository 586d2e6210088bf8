"""A proposed event: what an actor decided, before the committer has given it a place in the log.

The offset, and with it the resourceVersion in the body, is known when the committer orders the batch; until then
`body` has an empty resourceVersion, and `previous` may be a proposal itself.
"""

from __future__ import annotations

from actors.store.document import at_version
from journal.records import Event


class Proposal:
    """Made by an actor, ordered once by the committer. Not a dataclass: one is made for every write."""

    __slots__ = (
        "body",
        "event",
        "facts",
        "manager",
        "name",
        "namespace",
        "previous",
        "removed",
        "time",
        "type_id",
        "user",
        "verb",
    )

    def __init__(
        self,
        type_id: int,
        verb: str,
        namespace: str,
        name: str,
        previous: int | Proposal,  # the event of this object before this one; 0 when it did not exist
        removed: bool,
        time: int,  # microseconds since 1970; the event's own is never before that of the event in front of it
        user: str,
        manager: str,
        facts: bytes,
        body: bytes,
    ) -> None:
        self.type_id = type_id
        self.verb = verb
        self.namespace = namespace
        self.name = name
        self.previous = previous
        self.removed = removed
        self.time = time
        self.user = user
        self.manager = manager
        self.facts = facts
        self.body = body
        self.event: Event | None = None  # set when it is ordered

    def order(self, offset: int, time: int) -> Event:
        previous = self.previous
        event = self.event = Event(
            offset,
            self.type_id,
            self.verb,
            self.namespace,
            self.name,
            previous if type(previous) is int else offset_of(previous),
            self.removed,
            time,
            self.user,
            self.manager,
            self.facts,
            at_version(self.body, offset),
        )
        return event


def offset_of(written: int | Proposal) -> int:
    """The offset of an event, which is in the log or at least ordered."""
    if isinstance(written, int):
        return written
    assert written.event is not None
    return written.event.offset

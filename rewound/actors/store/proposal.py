"""A proposed event: an actor's decision, before the committer has assigned an offset.

The offset, which is also the resourceVersion in the body, is known when the committer orders the batch; until then
`body` has an empty resourceVersion, and `previous` may itself be a proposal.
"""

from __future__ import annotations

from rewound.actors.store.document import at_version
from rewound.journal.records import Event


class Proposal:
    """An actor creates it, the committer orders it once. Not a dataclass, because every write creates one."""

    __slots__ = (
        "body",
        "event",
        "facts",
        "manager",
        "name",
        "namespace",
        "previous",
        "reason",
        "removed",
        "time",
        "type_id",
        "user",
        "verb",
    )

    def __init__(
        self,
        *,
        type_id: int,
        verb: str,
        namespace: str,
        name: str,
        previous: int | Proposal,  # the previous event of this object; 0 if it did not exist
        removed: bool,
        time: int,  # microseconds since 1970; the committer may raise it to that of the previous event
        user: str,
        manager: str,
        facts: bytes,
        body: bytes,
        reason: str = "",
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
        self.reason = reason
        self.event: Event | None = None  # set when it is ordered

    def order(self, offset: int, time: int) -> Event:
        previous = self.previous
        event = self.event = Event(
            offset=offset,
            type_id=self.type_id,
            verb=self.verb,
            namespace=self.namespace,
            name=self.name,
            previous=previous if type(previous) is int else offset_of(previous),
            removed=self.removed,
            time=time,
            user=self.user,
            manager=self.manager,
            facts=self.facts,
            body=at_version(self.body, offset),
            reason=self.reason,
        )
        return event


def offset_of(written: int | Proposal) -> int:
    """The offset of a stored event or of an ordered proposal."""
    if isinstance(written, int):
        return written
    assert written.event is not None
    return written.event.offset

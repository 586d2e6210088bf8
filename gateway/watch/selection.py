"""The filter of a group: which changes become events of a watch, and of which type.

An object that begins to match is ADDED; one that stops matching is DELETED, with its last matching content and the
new version; a change of an object that matches neither before nor after is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.selectors.index import NO_CRITERIA, Criteria
from gateway.watch.changes import Change
from journal.classes.dataclass import dataclass

Match = Callable[[bytes], bool]
Selected = tuple[str, bytes]  # event type, stored object


@dataclass(frozen=True, slots=True)
class Selection:
    namespace: str | None = None  # None: all
    name: str | None = None
    match: Match | None = None  # of an event's packed labels and fields; None: all
    criteria: Criteria = NO_CRITERIA  # by which an index finds `match`; none: it is always tried

    def select(self, change: Change) -> Selected | None:
        event = change.event
        if self.namespace is not None and event.namespace != self.namespace:
            return None
        if self.name is not None and event.name != self.name:
            return None
        if self.match is None:
            if event.removed:
                return "DELETED", event.body
            return ("MODIFIED" if event.previous else "ADDED"), event.body
        return self._select_matching(change, self.match)

    def select_all(self, changes: Iterable[Change]) -> list[tuple[int, str, bytes]]:
        """Of each change that becomes an event: its offset, the type of the event, and the stored object."""
        found = ((change.event.offset, self.select(change)) for change in changes)
        return [(offset, *selected) for offset, selected in found if selected is not None]

    @staticmethod
    def _select_matching(change: Change, match: Match) -> Selected | None:
        event = change.event
        if event.removed:
            return ("DELETED", event.body) if match(event.facts) else None
        before = change.before()
        matched = before is not None and match(before.facts)
        if match(event.facts):
            return ("MODIFIED" if matched else "ADDED"), event.body
        return ("DELETED", change.deselected_body()) if matched else None

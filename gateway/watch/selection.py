"""Which changes a watch shows, and as what: the filter of a group.

An object that begins to match is ADDED, one that no longer does is DELETED with its last matching content and the
new version; one that never matched is silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.watch.changes import Change

Match = Callable[[bytes], bool]
Shown = tuple[str, bytes]  # event type, the object's stored bytes


@dataclass(frozen=True, slots=True)
class Selection:
    namespace: str | None = None  # None: all
    name: str | None = None
    match: Match | None = None  # over facts; None: all

    def show(self, change: Change) -> Shown | None:
        event = change.event
        if self.namespace is not None and event.namespace != self.namespace:
            return None
        if self.name is not None and event.name != self.name:
            return None
        if self.match is None:
            if event.removed:
                return "DELETED", event.body
            return ("MODIFIED" if event.previous else "ADDED"), event.body
        return self._show_matching(change, self.match)

    @staticmethod
    def _show_matching(change: Change, match: Match) -> Shown | None:
        event = change.event
        if event.removed:
            return ("DELETED", event.body) if match(event.facts) else None
        before = change.before()
        matched = before is not None and match(before.facts)
        if match(event.facts):
            return ("MODIFIED" if matched else "ADDED"), event.body
        return ("DELETED", change.left()) if matched else None
